"""The fields of KubeletConfiguration v1beta1, and since which release there are.

Source: staging/src/k8s.io/kubelet/config/v1beta1/types.go of the last patch of each release from 1.12
to 1.37; the fields of 1.12 are taken for those of earlier releases, too. None has been removed. A
kubelet reads over a field that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping

FIRST = 12
"""The minor of the first release whose fields are listed apart."""

_ADDED: Mapping[int, str] = {
    FIRST: """
        staticPodPath syncFrequency fileCheckFrequency httpCheckFrequency staticPodURL
        staticPodURLHeader address port readOnlyPort tlsCertFile tlsPrivateKeyFile
        tlsCipherSuites tlsMinVersion rotateCertificates serverTLSBootstrap authentication
        authorization registryPullQPS registryBurst eventRecordQPS eventBurst
        enableDebuggingHandlers enableContentionProfiling healthzPort healthzBindAddress
        oomScoreAdj clusterDomain clusterDNS streamingConnectionIdleTimeout
        nodeStatusUpdateFrequency nodeLeaseDurationSeconds imageMinimumGCAge
        imageGCHighThresholdPercent imageGCLowThresholdPercent volumeStatsAggPeriod
        kubeletCgroups systemCgroups cgroupRoot cgroupsPerQOS cgroupDriver cpuManagerPolicy
        cpuManagerReconcilePeriod qosReserved runtimeRequestTimeout hairpinMode maxPods
        podCIDR podPidsLimit resolvConf cpuCFSQuota cpuCFSQuotaPeriod maxOpenFiles
        contentType kubeAPIQPS kubeAPIBurst serializeImagePulls evictionHard evictionSoft
        evictionSoftGracePeriod evictionPressureTransitionPeriod evictionMaxPodGracePeriod
        evictionMinimumReclaim podsPerCore enableControllerAttachDetach
        protectKernelDefaults makeIPTablesUtilChains iptablesMasqueradeBit iptablesDropBit
        featureGates failSwapOn containerLogMaxSize containerLogMaxFiles
        configMapAndSecretChangeDetectionStrategy systemReserved kubeReserved
        systemReservedCgroup kubeReservedCgroup enforceNodeAllocatable
    """,
    13: "nodeStatusReportFrequency",
    16: "topologyManagerPolicy allowedUnsafeSysctls",
    17: "reservedSystemCPUs",
    18: "showHiddenMetricsForVersion",
    19: """
        enableServer runOnce nodeStatusMaxImages volumePluginDir providerID
        kernelMemcgNotification logging enableSystemLogHandler
    """,
    20: "topologyManagerScope shutdownGracePeriod shutdownGracePeriodCriticalPods",
    21: """
        memoryManagerPolicy reservedMemory enableProfilingHandler enableDebugFlagsHandler
    """,
    22: "cpuManagerPolicyOptions memorySwap seccompDefault memoryThrottlingFactor",
    23: "shutdownGracePeriodByPodPriority registerWithTaints registerNode",
    25: "tracing localStorageCapacityIsolation",
    26: "topologyManagerPolicyOptions",
    27: """
        maxParallelImagePulls enableSystemLogQuery containerRuntimeEndpoint
        imageServiceEndpoint
    """,
    29: "imageMaximumGCAge",
    30: "podLogsDir containerLogMaxWorkers containerLogMonitorInterval",
    31: "failCgroupV1",
    32: "singleProcessOOMKill crashLoopBackOff",
    33: """
        imagePullCredentialsVerificationPolicy preloadedImagesVerificationAllowlist
        mergeDefaultEvictionSettings userNamespaces
    """,
    36: "tlsCurvePreferences memoryReservationPolicy",
    37: "defaultPodSysctls",
}
"""Minor to the fields that came with it."""

SINCE: Mapping[str, int] = {
    name: 0 if minor == FIRST else minor
    for minor, names in _ADDED.items()
    for name in names.split()
}
"""Field to the minor of the first release that has it."""
