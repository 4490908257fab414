"""Which Kubernetes kinds carry pods, which carry none, and which are none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from qoslet.core.api.schema import nearest
from qoslet.core.problem import Problem, ProblemCode
from qoslet.errors import BadInput

Carrier = Literal["pod", "template", "other", "node", "unknown"]

TEMPLATES = {
    "Deployment": "spec.template",
    "StatefulSet": "spec.template",
    "DaemonSet": "spec.template",
    "ReplicaSet": "spec.template",
    "ReplicationController": "spec.template",
    "Job": "spec.template",
    "CronJob": "spec.jobTemplate.spec.template",
    "PodTemplate": "template",
}
"""Kind to the path of its pod template."""

_TEMPLATE_GROUPS = {
    "Deployment": ("apps", "extensions"),
    "StatefulSet": ("apps",),
    "DaemonSet": ("apps", "extensions"),
    "ReplicaSet": ("apps", "extensions"),
    "ReplicationController": ("",),
    "Job": ("batch",),
    "CronJob": ("batch",),
    "PodTemplate": ("",),
}

_NODE_KINDS = frozenset({"Node", "KubeletConfiguration"})

_OTHER_NAMES = """
    APIService Binding CertificateSigningRequest CertificateRequest ClusterRole ClusterRoleBinding
    ClusterTrustBundle ComponentStatus ConfigMap ControllerRevision CSIDriver CSINode
    CSIStorageCapacity CustomResourceDefinition DeviceClass DeviceTaintRule Endpoints
    EndpointSlice Event Eviction FlowSchema Gateway GatewayClass GRPCRoute HorizontalPodAutoscaler
    HTTPRoute Ingress IngressClass IPAddress Lease LeaseCandidate LimitRange
    LocalSubjectAccessReview MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
    MutatingWebhookConfiguration
    Namespace NetworkPolicy NodeMetrics PersistentVolume PersistentVolumeClaim
    PodCertificateRequest PodDisruptionBudget PodMetrics PodSchedulingContext PodSecurityPolicy
    PriorityClass PriorityLevelConfiguration ReferenceGrant ResourceClaim ResourceClaimParameters
    ResourceClaimTemplate ResourceClass ResourceQuota ResourceSlice Role RoleBinding RuntimeClass
    Scale Secret SelfSubjectAccessReview SelfSubjectReview SelfSubjectRulesReview Service
    ServiceAccount ServiceCIDR Status StorageClass StorageVersion StorageVersionMigration
    SubjectAccessReview Table TokenRequest TokenReview ValidatingAdmissionPolicy
    ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration VolumeAttachment
    VolumeAttributesClass VolumeSnapshot VolumeSnapshotClass VolumeSnapshotContent
    VerticalPodAutoscaler Workload PodGroup
    ClusterConfiguration InitConfiguration JoinConfiguration ResetConfiguration
    KubeProxyConfiguration KubeSchedulerConfiguration CredentialProviderConfig
    EncryptionConfiguration AdmissionConfiguration AuthenticationConfiguration
    AuthorizationConfiguration EgressSelectorConfiguration TracingConfiguration Policy
    Kustomization Component Cluster Config
"""
_OTHER = frozenset(_OTHER_NAMES.split())

_GROUPS = frozenset({"", "apps", "batch", "autoscaling", "policy", "extensions"})
_KNOWN = tuple(sorted({"Pod", "List", *TEMPLATES, *_NODE_KINDS, *_OTHER}))


def carrier(api_version: str | None, kind: str) -> Carrier:
    """What a document of this kind holds; ``api_version`` None means "as its list implies"."""
    group, slash, _ = (api_version or "").rpartition("/")
    if slash and not group:
        return "unknown"
    if kind == "Pod":
        return "pod" if api_version in (None, "v1") else "unknown"
    if kind in TEMPLATES:
        groups = _TEMPLATE_GROUPS[kind]
        return "template" if api_version is None or group in groups else "unknown"
    if kind == "Node" and api_version in (None, "v1", "qoslet/v1"):
        return "node"
    if kind == "KubeletConfiguration" and group == "kubelet.config.k8s.io":
        return "node"
    if group not in _GROUPS and not group.endswith("k8s.io"):
        return "unknown"
    return "other" if kind in _OTHER else "unknown"


def unknown_hint(api_version: str | None, kind: str) -> str:
    """What to do about a kind that ``carrier`` does not know."""
    if kind == "Pod" or kind in TEMPLATES:
        groups = ("v1",) if kind == "Pod" else _TEMPLATE_GROUPS[kind]
        wanted = "v1" if groups in (("v1",), ("",)) else f"{groups[0]}/v1"
        return f"a {kind} has apiVersion {wanted}"
    return nearest(kind, _KNOWN) or "remove it: qoslet reads Pods and pod templates"


def no_pod(problems: Iterable[Problem]) -> BadInput:
    """The fault of input that holds no pod; ``problems`` are what reading it met."""
    nodes = any(problem.code is ProblemCode.NODE_AMONG_PODS for problem in problems)
    hint = "give Pods, a list of them, or what carries a pod template"
    hint = "give a Node or KubeletConfiguration with --node" if nodes else hint
    return BadInput("no pod in the input", where="-f", hint=hint)
