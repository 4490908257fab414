"""The kubelet's flags that are fields of its configuration.

Source: cmd/kubelet/app/options/options.go AddKubeletConfigFlags of 1.36, and flags that earlier
releases had.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

Shape = Literal["text", "bool", "int", "pairs", "below", "list", "gates", "memory"]


class FlagField(Struct, frozen=True):
    """Where a flag's value goes: the dotted field, and how its text is decoded."""

    field: str
    shape: Shape


_ROWS = """
    enable-server                     enableServer                     bool
    fail-swap-on                      failSwapOn                       bool
    pod-manifest-path                 staticPodPath                    text
    manifest-url                      staticPodURL                     text
    sync-frequency                    syncFrequency                    text
    file-check-frequency              fileCheckFrequency               text
    http-check-frequency              httpCheckFrequency               text
    address                           address                          text
    port                              port                             int
    read-only-port                    readOnlyPort                     int
    fail-cgroupv1                     failCgroupV1                     bool
    container-runtime-endpoint        containerRuntimeEndpoint         text
    image-service-endpoint            imageServiceEndpoint             text
    anonymous-auth                    authentication.anonymous.enabled bool
    authentication-token-webhook      authentication.webhook.enabled   bool
    authentication-token-webhook-cache-ttl authentication.webhook.cacheTTL text
    client-ca-file                    authentication.x509.clientCAFile text
    authorization-mode                authorization.mode               text
    authorization-webhook-cache-authorized-ttl authorization.webhook.cacheAuthorizedTTL text
    authorization-webhook-cache-unauthorized-ttl authorization.webhook.cacheUnauthorizedTTL text
    tls-cert-file                     tlsCertFile                      text
    tls-private-key-file              tlsPrivateKeyFile                text
    rotate-server-certificates        serverTLSBootstrap               bool
    tls-cipher-suites                 tlsCipherSuites                  list
    tls-min-version                   tlsMinVersion                    text
    rotate-certificates               rotateCertificates               bool
    registry-qps                      registryPullQPS                  int
    registry-burst                    registryBurst                    int
    event-qps                         eventRecordQPS                   int
    event-burst                       eventBurst                       int
    enable-debugging-handlers         enableDebuggingHandlers          bool
    contention-profiling              enableContentionProfiling        bool
    healthz-port                      healthzPort                      int
    healthz-bind-address              healthzBindAddress               text
    oom-score-adj                     oomScoreAdj                      int
    cluster-domain                    clusterDomain                    text
    volume-plugin-dir                 volumePluginDir                  text
    cluster-dns                       clusterDNS                       list
    streaming-connection-idle-timeout streamingConnectionIdleTimeout   text
    node-status-update-frequency      nodeStatusUpdateFrequency        text
    minimum-image-ttl-duration        imageMinimumGCAge                text
    image-gc-high-threshold           imageGCHighThresholdPercent      int
    image-gc-low-threshold            imageGCLowThresholdPercent       int
    volume-stats-agg-period           volumeStatsAggPeriod             text
    feature-gates                     featureGates                     gates
    kubelet-cgroups                   kubeletCgroups                   text
    system-cgroups                    systemCgroups                    text
    provider-id                       providerID                       text
    cgroups-per-qos                   cgroupsPerQOS                    bool
    cgroup-driver                     cgroupDriver                     text
    cgroup-root                       cgroupRoot                       text
    cpu-manager-policy                cpuManagerPolicy                 text
    cpu-manager-policy-options        cpuManagerPolicyOptions          pairs
    cpu-manager-reconcile-period      cpuManagerReconcilePeriod        text
    qos-reserved                      qosReserved                      pairs
    experimental-qos-reserved         qosReserved                      pairs
    topology-manager-policy           topologyManagerPolicy            text
    runtime-request-timeout           runtimeRequestTimeout            text
    hairpin-mode                      hairpinMode                      text
    max-pods                          maxPods                          int
    pod-cidr                          podCIDR                          text
    pod-max-pids                      podPidsLimit                     int
    resolv-conf                       resolvConf                       text
    runonce                           runOnce                          bool
    cpu-cfs-quota                     cpuCFSQuota                      bool
    cpu-cfs-quota-period              cpuCFSQuotaPeriod                text
    enable-controller-attach-detach   enableControllerAttachDetach     bool
    make-iptables-util-chains         makeIPTablesUtilChains           bool
    iptables-masquerade-bit           iptablesMasqueradeBit            int
    iptables-drop-bit                 iptablesDropBit                  int
    container-log-max-size            containerLogMaxSize              text
    container-log-max-files           containerLogMaxFiles             int
    allowed-unsafe-sysctls            allowedUnsafeSysctls             list
    node-status-max-images            nodeStatusMaxImages              int
    kernel-memcg-notification         kernelMemcgNotification          bool
    local-storage-capacity-isolation  localStorageCapacityIsolation    bool
    max-open-files                    maxOpenFiles                     int
    kube-api-content-type             contentType                      text
    kube-api-qps                      kubeAPIQPS                       int
    kube-api-burst                    kubeAPIBurst                     int
    serialize-image-pulls             serializeImagePulls              bool
    eviction-hard                     evictionHard                     below
    eviction-soft                     evictionSoft                     below
    eviction-soft-grace-period        evictionSoftGracePeriod          pairs
    eviction-pressure-transition-period evictionPressureTransitionPeriod text
    eviction-max-pod-grace-period     evictionMaxPodGracePeriod        int
    eviction-minimum-reclaim          evictionMinimumReclaim           pairs
    pods-per-core                     podsPerCore                      int
    protect-kernel-defaults           protectKernelDefaults            bool
    reserved-cpus                     reservedSystemCPUs               text
    topology-manager-scope            topologyManagerScope             text
    topology-manager-policy-options   topologyManagerPolicyOptions     pairs
    system-reserved                   systemReserved                   pairs
    kube-reserved                     kubeReserved                     pairs
    enforce-node-allocatable          enforceNodeAllocatable           list
    system-reserved-cgroup            systemReservedCgroup             text
    kube-reserved-cgroup              kubeReservedCgroup               text
    memory-manager-policy             memoryManagerPolicy              text
    reserved-memory                   reservedMemory                   memory
    register-node                     registerNode                     bool
    seccomp-default                   seccompDefault                   bool
"""
_SHAPES: dict[str, Shape] = {
    "text": "text",
    "bool": "bool",
    "int": "int",
    "pairs": "pairs",
    "below": "below",
    "list": "list",
    "gates": "gates",
    "memory": "memory",
}


def _table() -> Mapping[str, FlagField]:
    rows = (line.split() for line in _ROWS.split("\n") if line.strip())
    return {flag: FlagField(field, _SHAPES[shape]) for flag, field, shape in rows}


FLAG_FIELDS: Mapping[str, FlagField] = _table()
"""Flag without its dashes to the field of the KubeletConfiguration."""

OTHER_BOOLEANS = frozenset(
    [
        "help",
        "version",
        "exit-on-lock-contention",
        "experimental-allocatable-ignore-eviction",
        "logtostderr",
        "alsologtostderr",
        "add-dir-header",
        "skip-headers",
        "skip-log-headers",
        "one-output",
        "keep-terminated-pod-volumes",
        "bootstrap-checkpoint-path-enabled",
        "allow-privileged",
        "register-schedulable",
        "redirect-container-streaming",
        "require-kubeconfig",
        "docker-only",
    ]
)
"""Boolean flags that are no fields: the word behind them is not their value."""
