"""Every feature gate that a Kubernetes release from 1.6 to 1.37 knew, with its stages.

Each word of the table is ``NAME=STAGE,...``; a stage is its letter (alpha, beta, ga,
deprecated), ``+`` or ``-`` for the default, and ``FIRST:LAST`` minor (empty: still there).
Source: the feature gate tables of kubernetes/website, the removed ones included, and
pkg/features/kube_features.go of 1.6-1.36.
"""

from __future__ import annotations

from functools import cache

from msgspec import Struct


class Stage(Struct, frozen=True, gc=False):
    """A span of minors in which a gate had one default; ``last`` None: not removed yet."""

    letter: str
    default: bool
    first: int
    last: int | None


_TABLE = """
APIListChunking=a-8:8,b+9:28,g+29:31 APIPriorityAndFairness=a-18:19,b+20:28,g+29:30
APIResponseCompression=a-7:15,b+16: APISelfSubjectReview=a-26:26,b+27:27,g+28:29
APIServerIdentity=a-20:25,b+26: APIServerTracing=a-22:26,b+27:33,g+34:36
APIServerWebhookAuthenticationToken=a-37: APIServingWithRoutine=a-30:
Accelerators=a-6:10,d-11:11 AdmissionWebhookMatchConditions=a-27:27,b+28:29,g+30:32
AdvancedAuditing=a-7:7,b+8:11,g+12:27 AffinityInAnnotations=a-6:7,d-8:8
AggregatedDiscoveryEndpoint=a-26:26,b+27:29,g+30:32 AggregatedDiscoveryRemoveBetaType=d+33:
AllAlpha=a-5: AllBeta=b-19: AllowDNSOnlyNodeCSR=d-31:
AllowExtTrafficLocalEndpoints=b-4:6,g+7:9 AllowInsecureBackendProxy=b+17:20,g+21:25
AllowInsecureKubeletCertificateSigningRequests=d-31:
AllowOverwriteTerminationGracePeriodSeconds=d-32: AllowParsingUserUIDFromCertAuth=b+33:
AllowServiceExternalIPs=g+36: AllowServiceLBStatusOnNonLB=d-29:34
AllowUnsafeMalformedObjectDeletion=a-32:36,b+37:
AnonymousAuthConfigurableEndpoints=a-31:31,b+32:33,g+34:36
AnyVolumeDataSource=a-18:23,b+24:32,g+33:36 AppArmor=b+4:30,g+31:32
AppArmorFields=b+30:30,g+31:32 AtomicFIFO=b+36: AtomicWriteVolumeUserFields=a-37:
AttachVolumeLimit=a-11:11,b+12:16,g+17:21 AuthorizeNodeWithSelectors=a-31:31,b+32:33,g+34:36
AuthorizePodWebsocketUpgradeCreatePermission=b+35:
AuthorizeWithSelectors=a-31:31,b+32:33,g+34:36 BalanceAttachedNodeVolumes=a-11:21,d-22:22
BlockVolume=a-9:12,b+13:17,g+18:21 BoundServiceAccountTokenVolume=a-13:20,b+21:21,g+22:23
BtreeWatchCache=b+32:32,g+33:35 CBORServingAndStorage=a-32: CPUManager=a-8:9,b+10:25,g+26:32
CPUManagerPolicyAlphaOptions=a-23: CPUManagerPolicyBetaOptions=b+23:
CPUManagerPolicyOptions=a-22:22,b+23:32,g+33: CRDObservedGenerationTracking=b-35:35,b+36:
CRDValidationRatcheting=a-28:29,b+30:32,g+33: CRIContainerLogRotation=a-10:10,b+11:20,g+21:22
CRIListStreaming=a-36: CSIBlockVolume=a-11:13,b+14:17,g+18:21
CSIDriverRegistry=a-12:13,b+14:17,g+18:21 CSIInlineVolume=a-15:15,b+16:24,g+25:26
CSIMigration=a-14:16,b+17:24,g+25:26 CSIMigrationAWS=a-14:16,b-17:22,b+23:24,g+25:26
CSIMigrationAWSComplete=a-17:20,d-21:21 CSIMigrationAzureDisk=a-15:18,b-19:22,b+23:23,g+24:26
CSIMigrationAzureDiskComplete=a-17:20,d-21:21
CSIMigrationAzureFile=a-15:20,b-21:23,b+24:25,g+26:29
CSIMigrationAzureFileComplete=a-17:20,d-21:21 CSIMigrationGCE=a-14:16,b-17:22,b+23:24,g+25:27
CSIMigrationGCEComplete=a-17:20,d-21:21 CSIMigrationOpenStack=a-14:17,b+18:23,g+24:25
CSIMigrationOpenStackComplete=a-17:20,d-21:21
CSIMigrationPortworx=a-23:24,b-25:30,b+31:32,g+33:35 CSIMigrationRBD=a-23:27,d-28:30
CSIMigrationvSphere=a-18:18,b-19:24,b+25:25,g+26:28
CSIMigrationvSphereComplete=b-19:21,d-22:22 CSINodeExpandSecret=a-25:26,b+27:28,g+29:30
CSINodeInfo=a-12:13,b+14:16,g+17:22 CSIPersistentVolume=a-9:9,b+10:12,g+13:16
CSIServiceAccountToken=a-20:20,b+21:21,g+22:24 CSIServiceAccountTokenSecrets=b+35:35,g+36:
CSIStorageCapacity=a-19:20,b+21:23,g+24:27 CSIVolumeFSGroupPolicy=a-19:19,b+20:22,g+23:25
CSIVolumeHealth=a-21: CSRDuration=b+22:23,g+24:25 ChangeContainerStatusOnKubeletRestart=d-35:
ClearingNominatedNodeNameAfterBinding=a-34:34,b+35: ClientsAllowCBOR=a-32:
ClientsPreferCBOR=a-32: CloudControllerManagerWatchBasedRoutesReconciliation=a-35:
CloudControllerManagerWebhook=a-27: CloudDualStackNodeIPs=a-27:28,b+29:29,g+30:31
ClusterTrustBundle=a-27:32,b-33:36,g+37: ClusterTrustBundleProjection=a-29:32,b-33:36,g+37:
ComponentFlagz=a-32:35,b+36: ComponentSLIs=a-26:26,b+27:31,g+32:34
ComponentStatusz=a-32:35,b+36: CompositePodGroup=a-37:
ConcurrentWatchObjectDecode=b-31:36,b+37: ConfigurableFSGroupPolicy=a-18:19,b+20:22,g+23:25
ConsistentHTTPGetHandlers=g+25:30 ConsistentListFromCache=a-28:30,b+31:33,g+34:36
ConsistentListFromCacheSkipTimeoutFallback=a-37: ConstrainedImpersonation=a-35:35,b+36:
ContainerCheckpoint=a-25:29,b+30: ContainerRestartRules=a-34:34,b+35:
ContainerStopSignals=a-33: ContextualLogging=a-24:29,b+30:
ControllerManagerLeaderMigration=a-21:21,b+22:23,g+24:26
ControllerManagerReleaseLeaderElectionLockOnExit=a-36: CoordinatedLeaderElection=a-31:32,b-33:
CronJobControllerV2=a-20:20,b+21:21,g+22:23 CronJobTimeZone=a-24:24,b+25:26,g+27:28
CronJobsScheduledAnnotation=b+28:31,g+32:34 CrossNamespaceVolumeDataSource=a-26:
CustomCPUCFSQuotaPeriod=a-12:35,g+36: CustomPodDNS=a-9:9,b+10:13,g+14:16
CustomResourceDefaulting=a-15:15,b+16:16,g+17:18
CustomResourceFieldSelectors=a-30:30,b+31:31,g+32:
CustomResourcePublishOpenAPI=a-14:14,b+15:15,g+16:18
CustomResourceSubresources=a-10:10,b+11:15,g+16:18
CustomResourceValidation=a-8:8,b+9:15,g+16:18
CustomResourceValidationExpressions=a-23:24,b+25:28,g+29:30
CustomResourceWebhookConversion=a-13:14,b+15:15,g+16:18 DRAAdminAccess=a-32:33,b+34:35,g+36:
DRAConsumableCapacity=a-34:35,b+36: DRAControlPlaneController=a-31:31
DRADerivedAttributes=a-37: DRADeviceBindingConditions=a-34:35,b+36:
DRADeviceCompatibilityGroups=a-37: DRADeviceTaintRules=a-35:35,b-36:36,g+37:
DRADeviceTaints=a-33:35,b+36:36,g+37: DRAExtendedResource=a-34:35,b+36:36,g+37:
DRAFractionalCapacityRange=b+37: DRAListTypeAttributes=a-36: DRANodeAllocatableResources=a-36:
DRAOptionalNodeOperations=a-37: DRAPartitionableDevices=a-33:35,b+36:
DRAPartitionableDevicesType=a-37: DRAPrioritizedList=a-33:33,b+34:35,g+36:
DRAResourceClaimDeviceStatus=a-32:32,b+33:36,g+37:
DRAResourceClaimGranularStatusAuthorization=b+36: DRAResourcePoolStatus=a-36:
DRASchedulerFilterTimeout=b+34: DRAWorkloadResourceClaims=a-36:36,b-37:
DaemonSetUpdateSurge=a-21:21,b+22:24,g+25:28 DebugContainers=a-8:15
DeclarativeValidation=b+33:35,g+36: DeclarativeValidationBeta=b+36:
DeclarativeValidationTakeover=b-33:35,d-36: DefaultHostNetworkHostPortsInPodTemplates=d-28:30
DefaultPodSysctls=a-37: DefaultPodTopologySpread=a-19:19,b+20:23,g+24:25
DelegateFSGroupToCSIDriver=a-22:22,b+23:25,g+26:27
DeploymentReplicaSetTerminatingReplicas=a-33:34,b+35: DetectCacheInconsistency=b+34:
DevicePluginCDIDevices=a-28:28,b+29:30,g+31:34 DevicePlugins=a-8:9,b+10:25,g+26:27
DisableAcceleratorUsageMetrics=a-19:19,b+20:24,g+25:27
DisableAllocatorDualWrite=a-31:32,b-33:33,g+34: DisableCPUQuotaWithExclusiveCPUs=b+33:35,d+36:
DisableCloudProviders=a-22:28,b+29:30,g+31:32
DisableKubeletCloudCredentialProviders=a-23:28,b+29:30,g+31:32
DisableNodeKubeProxyVersion=a-29:30,d-31:32,d+33:
DownwardAPIHugePages=a-20:20,b-21:21,b+22:26,g+27:28 DryRun=a-12:12,b+13:18,g+19:27
DynamicAuditing=a-13:18,d-19:19 DynamicKubeletConfig=a-4:10,b+11:21,d-22:25
DynamicProvisioningScheduling=a-11:11,d-12:12 DynamicResourceAllocation=a-26:31,b-32:33,g+34:
DynamicVolumeProvisioning=a+3:7,g+8:12 EfficientWatchResumption=a-20:20,b+21:23,g+24:32
ElasticIndexedJob=b+27:30,g+31:31 EmptyDirVolumeMode=a-37:
EnableAggregatedDiscoveryTimeout=d+16:17 EnableEquivalenceClassCache=a-8:12,d-13:23
EndpointSlice=a-16:16,b-17:17,b+18:20,g+21:24 EndpointSliceNodeName=a-20:20,g+21:24
EndpointSliceProxying=a-18:18,b+19:21,g+22:24
EndpointSliceTerminatingCondition=a-20:21,b+22:25,g+26:27 EnvFiles=a-34:34,b+35:
EphemeralContainers=a-16:22,b+23:24,g+25:26 EtcdRangeStream=b+37:
EvenPodsSpread=a-16:17,b+18:18,g+19:21 EventedPLEG=a-26: EvictionRequestAPI=a-37:
ExcludeAdmissionWebhookVirtualResources=b+37: ExecProbeTimeout=g+20:
ExpandCSIVolumes=a-14:15,b+16:23,g+24:26 ExpandInUsePersistentVolumes=a-11:14,b+15:23,g+24:26
ExpandPersistentVolumes=a-8:10,b+11:23,g+24:26 ExpandedDNSConfig=a-22:25,b+26:27,g+28:29
ExperimentalCriticalPodAnnotation=a-5:12,d-13:16
ExperimentalHostUserNamespaceDefaulting=b-5:27,d-28:29 ExtendWebSocketsToKubelet=b+36:
ExternalPolicyForExternalIP=g+18:22 ExternalServiceAccountTokenSigner=a-32:33,b+34:35,g+36:
GCERegionalPersistentDisk=b+10:12,g+13:16 GRPCContainerProbe=a-23:23,b+24:26,g+27:28
GRPCContainerProbeTLS=a-37: GenericEphemeralVolume=a-19:20,b+21:22,g+23:24
GenericWorkload=a-35:36,b-37: GitRepoVolumeDriver=d-33: GracefulNodeShutdown=a-20:20,b+21:
GracefulNodeShutdownBasedOnPodPriority=a-23:23,b+24: H2CContainerProbe=a-37:
HPAConfigurableTolerance=a-33:34,b+35:36,g+37: HPAContainerMetrics=a-20:26,b+27:29,g+30:32
HPAGeneration=b+37: HPAOptimizedSelectorStore=b+37: HPAScaleToZero=a-16:36,b+37:
HonorPVReclaimPolicy=a-23:30,b+31:32,g+33:35 HostnameOverride=a-34:34,b+35:36,g+37:
HugePageStorageMediumSize=a-18:18,b+19:21,g+22:24 HugePages=a-8:9,b+10:13,g+14:16
HugepageAwareEviction=b+37: HyperVContainer=a-10:19,d-20:20
IPTablesOwnershipCleanup=a-25:26,b+27:27,g+28:29 IPv6DualStack=a-15:20,b+21:22,g+23:24
IdentifyPodOS=a-23:23,b+24:24,g+25:26 ImageMaximumGCAge=a-29:29,b+30:34,g+35:
ImageVolume=a-31:32,b-33:34,b+35:35,g+36: ImageVolumeWithDigest=a-35:
ImmutableEphemeralVolumes=a-18:18,b+19:20,g+21:24 InOrderInformers=b+33:
InOrderInformersBatchProcess=b+35: InPlacePodLevelResourcesVerticalScaling=a-35:35,b+36:
InPlacePodVerticalScaling=a-27:32,b+33:34,g+35:
InPlacePodVerticalScalingAllocatedStatus=a-32:32,d-33:35
InPlacePodVerticalScalingExclusiveCPUs=a-32: InPlacePodVerticalScalingExclusiveMemory=a-34:
InPlacePodVerticalScalingInitContainers=b+36:36,g+37:
InPlacePodVerticalScalingMemoryBackedVolumes=a-37:
InPlacePodVerticalScalingSchedulerPreemption=a-37: InTreePluginAWSUnregister=a-21:30
InTreePluginAzureDiskUnregister=a-21:30 InTreePluginAzureFileUnregister=a-21:30
InTreePluginGCEUnregister=a-21:30 InTreePluginOpenStackUnregister=a-21:30
InTreePluginPortworxUnregister=a-23:35 InTreePluginRBDUnregister=a-23:30
InTreePluginvSphereUnregister=a-21:30 IndexedJob=a-21:21,b+22:23,g+24:25
InformerResourceVersion=a-30:34,g+35: IngressClassNamespacedParams=a-21:21,b+22:22,g+23:24
Initializers=a-7:13,d-14:14 InterPodAffinityHostnameFastPath=a-37:
JobBackoffLimitPerIndex=a-28:28,b+29:32,g+33:35 JobManagedBy=a-30:31,b+32:34,g+35:
JobMutableNodeSchedulingDirectives=b+23:26,g+27:28 JobPodFailurePolicy=a-25:25,b+26:30,g+31:32
JobPodReplacementPolicy=a-28:28,b+29:33,g+34:36 JobReadyPods=a-23:23,b+24:28,g+29:30
JobSuccessPolicy=a-30:30,b+31:32,g+33:35
JobTrackingWithFinalizers=a-22:22,b-23:24,b+25:25,g+26:28 KMSv1=d+28:28,d-29:
KMSv2=a-25:26,b+27:28,g+29:31 KMSv2KDF=b-28:28,g+29:31
KubeProxyDrainingTerminatingNodes=a-28:29,b+30:30,g+31:32 KubeProxyIPVS=d+37:
KubeProxyNFTablesLocalhostNodePorts=a-37: KubeletAllocatedPodsEndpoint=a-37:
KubeletCgroupDriverFromCRI=a-28:30,b+31:33,g+34: KubeletConfigFile=a-8:9,d-10:10
KubeletCrashLoopBackOffMax=a-32:34,b+35: KubeletCredentialProviders=a-20:23,b+24:25,g+26:28
KubeletEnsureSecretPulledImages=a-33:34,b+35: KubeletFineGrainedAuthz=a-32:32,b+33:35,g+36:
KubeletInUserNamespace=a-22:36,b+37: KubeletPSI=a-33:33,b+34:35,g+36:
KubeletPluginsWatcher=a-11:11,b+12:12,g+13:16 KubeletPodResources=a-13:14,b+15:27,g+28:29
KubeletPodResourcesDynamicResources=a-27:33,b+34:35,g+36:
KubeletPodResourcesGet=a-27:33,b+34:35,g+36:
KubeletPodResourcesGetAllocatable=a-21:22,b+23:27,g+28:29
KubeletPodResourcesListUseActivePods=d+34: KubeletRegistrationGetOnExistsOnly=d-32:
KubeletSeparateDiskGC=a-29:30,b+31:
KubeletServiceAccountTokenForCredentialProviders=a-33:33,b+34:
KubeletTracing=a-25:26,b+27:33,g+34: LegacyNodeRoleBehavior=a-16:18,b+19:20,g-21:22
LegacyServiceAccountTokenCleanUp=a-28:28,b+29:29,g+30:31
LegacyServiceAccountTokenNoAutoGeneration=b+24:25,g+26:28
LegacyServiceAccountTokenTracking=a-26:26,b+27:27,g+28:29 LegacySidecarContainers=d-33:35
ListFromCacheSnapshot=a-33:33,b+34: LoadBalancerIPMode=a-29:29,b+30:31,g+32:34
LocalStorageCapacityIsolation=a-7:9,b+10:24,g+25:26
LocalStorageCapacityIsolationFSQuotaMonitoring=a-15:30,b-31:
LogarithmicScaleDown=a-21:21,b+22:30,g+31:34 LoggingAlphaOptions=a-24:
LoggingBetaOptions=b+24: ManifestBasedAdmissionControlConfig=a-36:36,b+37:
MatchLabelKeysInPodAffinity=a-29:30,b+31:32,g+33:
MatchLabelKeysInPodTopologySpread=a-25:26,b+27:
MatchLabelKeysInPodTopologySpreadSelectorMerge=b+34:
MaxUnavailableStatefulSet=a-24:34,b-35:36,b+37: MemoryManager=a-21:21,b+22:31,g+32:34
MemoryQoS=a-22:36,b+37: MinDomainsInPodTopologySpread=a-24:24,b-25:26,b+27:29,g+30:31
MinimizeIPTablesRestore=a-26:26,b+27:27,g+28:29 MixedProtocolLBService=a-20:23,b+24:25,g+26:27
MountContainers=a-9:16,d-17:17 MountPropagation=a-8:9,b+10:11,g+12:14
MultiCIDRRangeAllocator=a-25:28 MultiCIDRServiceAllocator=a-27:30,b-31:32,g+33:
MutableCSINodeAllocatableCount=a-33:33,b-34:34,b+35:35,g+36: MutablePVNodeAffinity=a-35:
MutablePodResourcesForSuspendedJobs=a-35:35,b+36:
MutableSchedulingDirectivesForSuspendedJobs=a-35:35,b+36:
MutatingAdmissionPolicy=a-32:33,b-34:35,g+36: NFTablesNetlink=b+37:
NFTablesProxyMode=a-29:30,b+31:32,g+33: NamespaceDefaultLabelName=b+21:21,g+22:23
NativeHistograms=a-36:36,b+37: NetworkPolicyEndPort=a-21:21,b+22:24,g+25:26
NetworkPolicyStatus=a-24:27 NewVolumeManagerReconstruction=b+27:29,g+30:31
NoDaemonSetScheduler=a-10:10 NodeControllerLeaseCircuitBreaker=b+37:
NodeDeclaredFeatures=a-35:35,b+36:36,g+37: NodeDisruptionExclusion=a-16:18,b+19:20,g+21:22
NodeInclusionPolicyInPodTopologySpread=a-25:25,b+26:32,g+33: NodeLease=a-12:13,b+14:16,g+17:23
NodeLifecycleConditions=a-37: NodeLogQuery=a-27:29,b-30:35,g+36:
NodeOutOfServiceVolumeDetach=a-24:25,b+26:27,g+28:31 NodeSwap=a-22:27,b-28:29,b+30:33,g+34:
NodeSystemPartition=a-38: NominatedNodeNameForExpectation=a-34:34,b+35:
NonPreemptingPriority=a-15:18,b+19:23,g+24:25 OpenAPIEnums=a-23:23,b+24:
OpenAPIV3=a-23:23,b+24:26,g+27:28 OpportunisticBatching=b+35:
OrderedNamespaceDeletion=b-30:32,b+33:33,g+34:36
PDBUnhealthyPodEvictionPolicy=a-26:26,b+27:30,g+31:32 PLEGOnDemandRelist=b+36:36,g+37:
PVCProtection=a-9:9,d-10:10 PerPodPIDLimit=a-37: PersistentLocalVolumes=a-7:9,b+10:13,g+14:16
PersistentVolumeClaimUnusedSinceTime=a-36:36,b+37:
PersistentVolumeLastPhaseTransitionTime=a-28:28,b+29:30,g+31:32
PodAffinityNamespaceSelector=a-21:21,b+22:23,g+24:25 PodAndContainerStatsFromCRI=a-23:36,b-37:
PodCertificateRequest=a-34:34,b-35:36,g+37: PodDeletionCost=a-21:21,b+22:
PodDisruptionBudget=a-3:4,b+5:20,g+21:25 PodDisruptionConditions=a-25:25,b+26:30,g+31:32
PodGroupPreemptionPolicy=a-37: PodHasNetworkCondition=a-25:27
PodHostIPs=a-28:28,b+29:29,g+30:31 PodIndexLabel=b+28:31,g+32:34
PodLevelResourceManagers=a-36:36,b-37: PodLevelResources=a-32:33,b+34:
PodLevelResourcesFixDefaulting=b+37: PodLevelResourcesFixKubeletQOSClass=b+37:
PodLifecycleSleepAction=a-29:29,b+30:33,g+34:36
PodLifecycleSleepActionAllowZero=a-32:32,b+33:33,g+34:36 PodLogsQuerySplitStreams=a-32:
PodObservedGenerationTracking=a-33:33,b+34:34,g+35: PodOverhead=a-16:17,b+18:23,g+24:25
PodPriority=a-8:10,b+11:13,g+14:18 PodReadinessGates=a-11:11,b+12:13,g+14:16
PodReadyToStartContainersCondition=a-28:28,b+29:36,g+37:
PodSchedulingReadiness=a-26:26,b+27:29,g+30: PodSecurity=a-22:22,b+23:24,g+25:27
PodShareProcessNamespace=a-10:11,b+12:16,g+17:19 PodTopologyLabelsAdmission=a-33:34,b+35:
PodsAPI=a-36:36,b+37: PortForwardWebsockets=a-30:30,b+31:
PreferNominatedNode=a-21:21,b+22:23,g+24:25
PreferSameTrafficDistribution=a-33:33,b+34:34,g+35: PreventStaticPodAPIReferences=b+34:36
ProbeTerminationGracePeriod=a-21:21,b-22:24,b+25:27,g+28:28
ProcMountType=a-12:30,b-31:32,b+33:35,g+36: ProxyTerminatingEndpoints=a-22:25,b+26:27,g+28:29
QOSReserved=a-11: ReadOnlyAPIDataVolumes=d+10:10 ReadWriteOncePod=a-22:26,b+27:28,g+29:30
RecoverVolumeExpansionFailure=a-23:31,b+32:33,g+34:
RecursiveReadOnlyMounts=a-30:30,b+31:32,g+33: ReduceDefaultCrashLoopBackOffDecay=a-33:
RelaxedDNSSearchValidation=a-32:32,b+33:33,g+34:36
RelaxedEnvironmentVariableValidation=a-30:31,b+32:33,g+34:
RelaxedServiceNameValidation=a-34:35,b+36:36,g+37: ReloadKubeletClientCAFile=b+36:
ReloadKubeletServerCertificateFile=b+31: RemainingItemCount=a-15:15,b+16:28,g+29:32
RemoteRequestHeaderUID=a-32:32,b+33: RemoveSelfLink=a-16:19,b+20:23,g+24:29
RequestManagement=a-15:16,d-17:17 ResilientWatchCacheInitialization=b+31:33,g+34:36
ResourceHealthStatus=a-31:35,b+36: ResourceHealthStatusMessage=b+36:
ResourceLimitsPriorityFunction=a-9:18,d-19:19
ResourceQuotaScopeSelectors=a-11:11,b+12:16,g+17:18
RestartAllContainersOnContainerExits=a-35:35,b+36:
RetroactiveDefaultStorageClass=a-25:25,b+26:27,g+28:28
RetryGenerateName=a-30:30,b+31:31,g+32:34 RootCAConfigMap=a-13:19,b+20:20,g+21:22
RotateKubeletClientCertificate=b+8:18,g+19:21 RotateKubeletServerCertificate=a-7:11,b+12:
RunAsGroup=b+14:20,g+21:22 RuntimeClass=a-12:13,b+14:19,g+20:24
RuntimeClassInImageCriApi=a-29: SCTPSupport=a-12:18,b+19:19,g+20:22
SELinuxChangePolicy=a-32:32,b+33:35,g+36: SELinuxMount=a-30:32,b-33:36,g+37:
SELinuxMountReadWriteOncePod=a-25:26,b-27:27,b+28:35,g+36:
ScheduleDaemonSetPods=a-11:11,b+12:16,g+17:18 SchedulerAsyncAPICalls=b-34:
SchedulerAsyncPreemption=a-32:32,b+33: SchedulerPopFromBackoffQ=b+33:
SchedulerPreQueueingHints=a-37: SchedulerQueueingHints=b-28:31,b+32:33,g+34:36
SeccompDefault=a-22:24,b+25:26,g+27:28 SecurityContextDeny=a-27:29
SelectorIndex=a-18:18,b+19:19,g+20:25 SeparateCacheWatchRPC=b+28:32,d-33:
SeparateTaintEvictionController=b+29:33,g+34: ServerSideApply=a-14:15,b+16:21,g+22:31
ServerSideFieldValidation=a-23:24,b+25:26,g+27:31
ServiceAccountIssuerDiscovery=a-18:19,b+20:20,g+21:23
ServiceAccountNodeAudienceRestriction=b-32:32,b+33:
ServiceAccountTokenJTI=a-29:29,b+30:31,g+32:
ServiceAccountTokenNodeBinding=a-29:30,b+31:32,g+33:
ServiceAccountTokenNodeBindingValidation=a-29:29,b+30:31,g+32:
ServiceAccountTokenPodNodeInfo=a-29:29,b+30:31,g+32:
ServiceAppProtocol=a-18:18,b+19:19,g+20:22 ServiceCIDRStatusFieldWiping=d+36:
ServiceIPStaticSubrange=a-24:24,b+25:25,g+26:27
ServiceInternalTrafficPolicy=a-21:21,b+22:25,g+26:27
ServiceLBNodePortControl=a-20:21,b+22:23,g+24:25
ServiceLoadBalancerClass=a-21:21,b+22:23,g+24:25
ServiceLoadBalancerFinalizer=a-15:15,b+16:16,g+17:19
ServiceNodeExclusion=a-8:18,b+19:20,g+21:22
ServiceNodePortStaticSubrange=a-27:27,b+28:28,g+29:30 ServiceTopology=a-17:19,d-20:22
ServiceTrafficDistribution=a-30:30,b+31:32,g+33:35 SetHostnameAsFQDN=a-19:19,b+20:21,g+22:24
ShardedListAndWatch=a-36: SidecarContainers=a-28:28,b+29:32,g+33:35
SizeBasedListCostEstimate=b+34: SizeMemoryBackedVolumes=a-20:21,b+22:31,g+32:34
SkipReadOnlyValidationGCE=a-28:28,d+29:30 StableLoadBalancerNodeSet=b+27:29,g+30:31
StaleControllerConsistencyDaemonSet=b+36: StaleControllerConsistencyHPA=b+37:
StaleControllerConsistencyJob=b+36: StaleControllerConsistencyReplicaSet=b+36:
StaleControllerConsistencyStatefulSet=b+36: StartupProbe=a-16:17,b+18:19,g+20:23
StatefulSetAutoDeletePVC=a-23:26,b+27:31,g+32:34
StatefulSetMinReadySeconds=a-22:22,b+23:24,g+25:26 StatefulSetRecreateStrategy=a-37:
StatefulSetSemanticRevisionComparison=b+36: StatefulSetStartOrdinal=a-26:26,b+27:30,g+31:32
StorageCapacityScoring=a-33:36,b+37: StorageNamespaceIndex=b+30:32,d+33:
StorageObjectInUseProtection=b+10:10,g+11:24 StorageVersionAPI=a-20:
StorageVersionHash=a-14:14,b+15: StorageVersionMigrator=a-30:34,b-35:36,g+37:
StreamingCollectionEncodingToJSON=b+33:33,g+34:36
StreamingCollectionEncodingToProtobuf=b+33:33,g+34:36
StreamingProxyRedirects=b-5:5,b+6:17,d+18:21,d-22:24
StrictCostEnforcementForVAP=b-30:31,g+32:34 StrictCostEnforcementForWebhooks=b-30:31,g+32:34
StrictIPCIDRValidation=a-33:35,b+36:
StructuredAuthenticationConfiguration=a-29:29,b+30:33,g+34:36
StructuredAuthenticationConfigurationEgressSelector=b+34:
StructuredAuthenticationConfigurationJWKSMetrics=b+35:
StructuredAuthorizationConfiguration=a-29:29,b+30:31,g+32:34
SupplementalGroupsPolicy=a-31:32,b+33:34,g+35:
SupportIPVSProxyMode=a-8:8,b-9:9,b+10:10,g+11:19 SupportNodePidsLimit=a-14:14,b+15:19,g+20:23
SupportPodPidsLimit=a-10:13,b+14:19,g+20:23 SuspendJob=a-21:21,b+22:23,g+24:25
Sysctls=b+11:20,g+21:22 SystemdWatchdog=b+32:34,g+35: TTLAfterFinished=a-12:20,b+21:22,g+23:24
TaintBasedEvictions=a-6:12,b+13:17,g+18:19 TaintNodesByCondition=a-8:11,b+12:16,g+17:18
TaintTolerationComparisonOperators=a-35: TokenRequest=a-10:11,b+12:19,g+20:21
TokenRequestProjection=a-11:11,b+12:19,g+20:21 TokenRequestServiceAccountUIDValidation=b+34:
TopologyAwareHints=a-21:22,b-23:23,b+24:32,g+33:35 TopologyAwareWorkloadScheduling=a-36:
TopologyManager=a-16:17,b+18:26,g+27:28 TopologyManagerPolicyAlphaOptions=a-26:
TopologyManagerPolicyBetaOptions=b-26:27,b+28:
TopologyManagerPolicyOptions=a-26:27,b+28:31,g+32:
TranslateStreamCloseWebsocketRequests=a-29:29,b+30:
UnauthenticatedHTTP2DOSMitigation=b-25:28,b+29:
UnknownVersionInteroperabilityProxy=a-28:35,b+36: UnlockWhileProcessingFIFO=b+36:
UserNamespacesHostNetworkSupport=a-35: UserNamespacesPodSecurityStandards=a-29:35
UserNamespacesStatelessPodsSupport=a-25:27 UserNamespacesSupport=a-25:29,b-30:32,b+33:35,g+36:
ValidateProxyRedirects=a-12:13,b+14:21,d+22:24
ValidatingAdmissionPolicy=a-26:27,b-28:29,g+30:31 VolumeAttributesClass=a-29:30,b-31:33,g+34:
VolumeBindMountOptions=a-37: VolumeCapacityPriority=a-21:32 VolumeLimitScaling=a-35:36,b+37:
VolumePVCDataSource=a-15:15,b+16:17,g+18:21 VolumeScheduling=a-9:9,b+10:12,g+13:16
VolumeSnapshotDataSource=a-12:16,b+17:19,g+20:22 VolumeSubpath=g+10:24
VolumeSubpathEnvExpansion=a-14:14,b+15:16,g+17:24 WarningHeaders=b+19:21,g+22:24
WatchBookmark=a-15:15,b+16:16,g+17:32
WatchCacheInitializationPostStartHook=b-31:35,b+36:36,g+37: WatchCacheStallResume=a-37:
WatchFromStorageWithoutResourceVersion=b-27:32,d-33:35 WatchList=a-27:31,b+32:32,b-33:33,b+34:
WatchListClient=b-30:34,b+35: WatchListCompression=b+37: WebhookRoundTripLoadBalancing=b+37:
WinDSR=a-14:32,b+33:33,g+34: WinOverlay=a-14:19,b+20:33,g+34:
WindowsCPUAndMemoryAffinity=a-32: WindowsEndpointSliceProxying=a-19:20,b+21:21,g+22:24
WindowsGMSA=a-14:15,b+16:17,g+18:20 WindowsGracefulNodeShutdown=a-32:33,b+34:
WindowsHostNetwork=a+26:32,d-33: WindowsHostProcessContainers=a-22:22,b+23:25,g+26:27
WindowsRunAsUserName=a-16:16,b+17:17,g+18:20 WorkloadWithJob=a-36:
ZeroLimitedNominalConcurrencyShares=b-29:29,g+30:31
"""


_GROUPS = {"a": "AllAlpha", "b": "AllBeta"}
"""The gates that set all others of a stage that are not named, by the letter of the stage."""


def _stage(text: str) -> Stage:
    first, last = text[2:].split(":")
    return Stage(text[0], text[1] == "+", int(first), int(last) if last else None)


@cache
def _words() -> dict[str, str]:
    """Gate name to its stages as text: most starts ask for a few of them only."""
    return dict([word.split("=") for word in _TABLE.split()])


@cache
def stages_of(name: str) -> tuple[Stage, ...]:
    """The stages of a gate, oldest first; none of a gate that no release knew."""
    text = _words().get(name)
    return tuple(_stage(stage) for stage in text.split(",")) if text else ()


def is_known(name: str) -> bool:
    """Whether any release has the gate."""
    return name in _words()


def gates() -> dict[str, tuple[Stage, ...]]:
    """Gate name to its stages, oldest first."""
    return {name: stages_of(name) for name in _words()}


def known_in(name: str, minor: int) -> bool:
    """Whether release 1.``minor`` has the gate."""
    return any(
        stage.first <= minor and (stage.last is None or minor <= stage.last)
        for stage in stages_of(name)
    )


def group_in(name: str, minor: int) -> str | None:
    """The gate that sets ``name`` in release 1.``minor`` with all others of its stage; None where
    no such gate does. Source: k8s.io/component-base featuregate (setUnsetAlphaGates)."""
    letters = (
        stage.letter
        for stage in stages_of(name)
        if stage.first <= minor and (stage.last is None or minor <= stage.last)
    )
    group = _GROUPS.get(next(letters, ""))
    return group if group is not None and group != name and known_in(group, minor) else None


def versions(name: str) -> str:
    """The releases that knew a gate, as text for a hint; empty for a gate of none."""
    stages = stages_of(name)
    if not stages:
        return ""
    last = stages[-1].last
    return f"1.{stages[0].first}-1.{last}" if last is not None else f"1.{stages[0].first} and later"


def default(name: str, minor: int) -> bool:
    """The default in release 1.``minor``: off before the gate came, and on after it went if it
    graduated."""
    value = False
    for stage in stages_of(name):
        if stage.first > minor:
            break
        over = stage.last is not None and minor > stage.last
        value = stage.default if not over else stage.default and stage.letter in "bg"
    return value
