"""Which Kubernetes kinds carry pods, which carry none, and which are none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from qoslet.core.api.schema import PodShape, WorkloadShape, WorkloadSpecShape, nearest
from qoslet.core.problem import Problem, ProblemCode
from qoslet.errors import BadInput, FaultCode

Carrier = Literal["pod", "template", "other", "node", "unknown", "config"]

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

CONFIG_KINDS = ("ConfigMap", "Secret")
"""Kinds from which pods take variables and files."""

NAMED_MAX = 5
"""Places without a pod that one message names."""

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


def carrier(api_version: str | None, kind: str, *, config: bool = False) -> Carrier:
    """What a document of this kind holds; ``api_version`` None means "as its list implies".
    Without ``config`` ConfigMaps and Secrets are kinds as others are."""
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
    if config and kind in CONFIG_KINDS and api_version in (None, "v1"):
        return "config"
    return "other" if kind in _OTHER else "unknown"


def unknown_hint(api_version: str | None, kind: str) -> str:
    """What to do about a kind that ``carrier`` does not know."""
    if kind == "Pod" or kind in TEMPLATES:
        groups = ("v1",) if kind == "Pod" else _TEMPLATE_GROUPS[kind]
        wanted = "v1" if groups in (("v1",), ("",)) else f"{groups[0]}/v1"
        return f"a {kind} has apiVersion {wanted}"
    return nearest(kind, _KNOWN) or "remove it: qoslet reads Pods and pod templates"


def template_of(shape: WorkloadShape, spec: WorkloadSpecShape, kind: str) -> PodShape | None:
    """The pod template of a document of this kind; None without one."""
    if kind == "PodTemplate":
        return shape.template
    if kind == "CronJob":
        job = spec.job_template
        return job.spec.template if job and job.spec else None
    return spec.template


def no_pod(
    problems: Sequence[Problem], files: Sequence[str] = (), bare: Sequence[str] = ()
) -> BadInput:
    """The fault of input that holds no pod; ``problems`` are the rows of the documents that were
    skipped, ``files`` all that were read, ``bare`` sentences about directories without any."""
    nodes = any(problem.code is ProblemCode.NODE_AMONG_PODS for problem in problems)
    hint = "give Pods, a list of them, or what carries a pod template"
    hint = "give a Node or KubeletConfiguration with --node" if nodes else hint
    named = {problem.where.partition(": ")[0] for problem in problems}
    empty = [f"{file} has no document" for file in files if file not in named]
    why = [*(f"{problem.where} skipped" for problem in problems), *empty, *bare]
    more = len(why) - NAMED_MAX
    reasons = "; ".join([*why[:NAMED_MAX], *([f"and {more} more"] if more > 0 else [])])
    message = "no pod in the input" + (f": {reasons}" if reasons else "")
    return BadInput(message, where="-f", hint=hint, fault_code=FaultCode.NO_POD)
