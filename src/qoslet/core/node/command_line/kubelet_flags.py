"""The kubelet's flags that decide nothing about resources: their names, from 1.6 to 1.37.

Source: cmd/kubelet/app/options/options.go, globalflags.go, globalflags_linux.go and
container_runtime.go of those releases; k8s.io/component-base/logs/api/v1; cAdvisor's global flags.
"""

from __future__ import annotations

_NAMES = """
    address allow-privileged allowed-unsafe-sysctls alsologtostderr anonymous-auth api-servers
    application-metrics-count-limit authentication-token-webhook
    authentication-token-webhook-cache-ttl authorization-mode
    authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl
    azure-container-registry-config boot-id-file bootstrap-checkpoint-path bootstrap-kubeconfig
    cadvisor-port cert-dir chaos-chance client-ca-file cloud-config cloud-provider cluster-dns
    cluster-domain cni-bin-dir cni-cache-dir cni-conf-dir config config-dir container-hints
    container-log-max-files container-log-max-size container-runtime container-runtime-endpoint
    containerd containerd-namespace contention-profiling cpu-manager-reconcile-period
    docker docker-disable-shared-pid docker-endpoint docker-env-metadata-whitelist docker-exec-handler
    docker-only docker-root docker-tls docker-tls-ca docker-tls-cert docker-tls-key
    dynamic-config-dir enable-controller-attach-detach enable-cri enable-custom-metrics
    enable-debugging-handlers enable-load-reader enable-server event-burst event-qps
    event-storage-age-limit event-storage-event-limit eviction-max-pod-grace-period
    eviction-minimum-reclaim eviction-pressure-transition-period eviction-soft
    eviction-soft-grace-period exit-on-lock-contention experimental-allocatable-ignore-eviction
    experimental-allowed-unsafe-sysctls experimental-bootstrap-kubeconfig
    experimental-check-node-capabilities-before-mount experimental-dockershim
    experimental-dockershim-root-directory experimental-fail-swap-on
    experimental-kernel-memcg-notification experimental-logging-sanitization
    experimental-mounter-path experimental-nvidia-gpus file-check-frequency global-housekeeping-interval
    google-json-key hairpin-mode healthz-bind-address healthz-port host-ipc-sources
    host-network-sources host-pid-sources hostname-override housekeeping-interval
    http-check-frequency image-credential-provider-bin-dir image-credential-provider-config
    image-gc-high-threshold image-gc-low-threshold image-pull-progress-deadline
    image-service-endpoint init-config-dir iptables-drop-bit iptables-masquerade-bit keep-terminated-pod-volumes
    kernel-memcg-notification kube-api-burst kube-api-content-type kube-api-qps kubeconfig
    kubelet-cgroups local-storage-capacity-isolation lock-file log-backtrace-at log-cadvisor-usage log-dir log-file
    log-file-max-size log-flush-frequency log-json-info-buffer-size log-json-split-stream
    log-text-info-buffer-size log-text-split-stream logging-format logtostderr low-diskspace-threshold-mb
    machine-id-file make-iptables-util-chains manifest-url manifest-url-header
    master-service-namespace max-housekeeping-interval max-open-files maximum-dead-containers
    maximum-dead-containers-per-container minimum-container-ttl-duration minimum-image-ttl-duration
    network-plugin network-plugin-dir network-plugin-mtu node-ip node-labels
    node-status-max-images node-status-update-frequency non-masquerade-cidr one-output
    oom-score-adj outofdisk-transition-frequency pod-cidr pod-infra-container-image
    pod-manifest-path pods-per-core port profiling protect-kernel-defaults provider-id
    read-only-port really-crash-for-testing redirect-container-streaming register-node
    register-schedulable register-with-taints registry-burst registry-qps require-kubeconfig
    resolv-conf rkt-api-endpoint rkt-path rkt-stage1-image root-dir rotate-certificates
    rotate-server-certificates runonce runtime-cgroups runtime-request-timeout
    seccomp-default seccomp-profile-root serialize-image-pulls skip-headers skip-log-headers
    stderrthreshold storage-driver-buffer-duration storage-driver-db storage-driver-host
    storage-driver-password storage-driver-secure storage-driver-table storage-driver-user
    streaming-connection-idle-timeout sync-frequency system-cgroups tls-cert-file
    tls-cipher-suites tls-min-version tls-private-key-file update-machine-info-interval v version vmodule
    volume-plugin-dir volume-stats-agg-period windows-priorityclass windows-service
"""

WITHOUT_RESOURCES = frozenset(_NAMES.split())
