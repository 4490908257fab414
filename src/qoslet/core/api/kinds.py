"""Which Kubernetes kinds hold pods, which hold none, and which are none."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from qoslet.core.api.schema import PodShape, WorkloadShape, WorkloadSpecShape, nearest, shown
from qoslet.core.problem import Problem, ProblemCode
from qoslet.errors import BadInput, FaultCode

Content = Literal["pod", "template", "other", "node", "custom", "unknown", "config"]
"""What a document holds. ``other`` is a known kind without pods, ``config`` the variables and files of pods."""

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

TEMPLATE_MARK = "{{"
"""How an action of a template begins (Go's text/template, Jinja)."""

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

_CLUSTER_SCOPED_NAMES = """
    APIService CertificateSigningRequest ClusterRole ClusterRoleBinding ClusterTrustBundle
    ComponentStatus CSIDriver CSINode CustomResourceDefinition DeviceClass DeviceTaintRule
    FlowSchema GatewayClass IngressClass IPAddress MutatingAdmissionPolicy
    MutatingAdmissionPolicyBinding MutatingWebhookConfiguration Namespace Node NodeMetrics
    PersistentVolume PodSecurityPolicy PriorityClass PriorityLevelConfiguration ResourceClass
    ResourceSlice RuntimeClass ServiceCIDR StorageClass StorageVersion StorageVersionMigration
    ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration
    VolumeAttachment VolumeAttributesClass VolumeSnapshotClass VolumeSnapshotContent
"""
CLUSTER_SCOPED = frozenset(_CLUSTER_SCOPED_NAMES.split())
"""Kinds whose objects are in no namespace."""

_BUILT_IN = frozenset(
    [
        "apps",
        "batch",
        "autoscaling",
        "policy",
        "extensions",
        "componentconfig",
        "abac.authorization.kubernetes.io",
        "admission.k8s.io",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apiserver.config.k8s.io",
        "apiserver.k8s.io",
        "apidiscovery.k8s.io",
        "audit.k8s.io",
        "auditregistration.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "certificates.k8s.io",
        "client.authentication.k8s.io",
        "cloudcontrollermanager.config.k8s.io",
        "controllermanager.config.k8s.io",
        "coordination.k8s.io",
        "credentialprovider.kubelet.k8s.io",
        "custom.metrics.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "external.metrics.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "imagepolicy.k8s.io",
        "internal.apiserver.k8s.io",
        "kubeadm.k8s.io",
        "kubecontrollermanager.config.k8s.io",
        "kubectl.config.k8s.io",
        "kubelet.config.k8s.io",
        "kubeproxy.config.k8s.io",
        "kubescheduler.config.k8s.io",
        "kustomize.config.k8s.io",
        "meta.k8s.io",
        "metrics.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "settings.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    ]
) | {""}
"""The API groups that Kubernetes itself has; every other one is of custom resources. Source: k8s.io/api
and the component-config packages of kubernetes/kubernetes, 1.6 to 1.37."""

_KNOWN = tuple(sorted({"Pod", "List", *TEMPLATES, *_NODE_KINDS, *_OTHER}))


def group_of(api_version: str | None) -> str:
    """The group of ``GROUP/VERSION``; empty for the core group."""
    return (api_version or "").rpartition("/")[0]


def _is_built_in(group: str) -> bool:
    """Whether Kubernetes itself has the group."""
    return group in _BUILT_IN


def _is_custom(group: str) -> bool:
    """Whether the group can be one of custom resources. Source: k8s.io/apiextensions-apiserver
    ValidateCustomResourceDefinition: "should be a domain with at least one dot"."""
    return group not in _BUILT_IN and "/" not in group and "." in group.strip(".")


def _is_reserved(group: str) -> bool:
    """Whether the group's name says that the Kubernetes project approved it."""
    return group.endswith((".k8s.io", ".kubernetes.io"))


def content_of(api_version: str | None, kind: str, *, config: bool = False) -> Content:
    """The content of a document of this kind; ``api_version`` None means "as its list implies".
    Without ``config`` ConfigMaps and Secrets are kinds as others are."""
    group, slash, _ = (api_version or "").rpartition("/")
    if slash and not group:
        return "unknown"
    if _is_custom(group) and not _is_reserved(group):
        return "custom"
    if kind == "Pod":
        return "pod" if api_version in (None, "v1") else "unknown"
    if kind in TEMPLATES:
        groups = _TEMPLATE_GROUPS[kind]
        return "template" if api_version is None or group in groups else "unknown"
    if kind == "Node" and api_version in (None, "v1", "qoslet/v1"):
        return "node"
    if kind == "KubeletConfiguration" and group == "kubelet.config.k8s.io":
        return "node"
    if config and kind in CONFIG_KINDS and api_version in (None, "v1"):
        return "config"
    if kind in _OTHER and (_is_built_in(group) or _is_reserved(group)):
        return "other"
    return "custom" if _is_custom(group) else "unknown"


def unknown_hint(api_version: str | None, kind: str) -> str:
    """What to do about a kind that ``content_of`` does not know."""
    if "." in (api_version or "") and "/" not in (api_version or ""):
        return f"an apiVersion is GROUP/VERSION, such as {shown(api_version or '')}/v1"
    if kind == "Pod" or kind in TEMPLATES:
        groups = ("v1",) if kind == "Pod" else _TEMPLATE_GROUPS[kind]
        wanted = "v1" if groups in (("v1",), ("",)) else f"{groups[0]}/v1"
        return f"a {kind} has apiVersion {wanted}"
    if not _is_built_in(group_of(api_version)):
        return "Kubernetes has no such API group, and that of a custom resource has a dot"
    return nearest(kind, _KNOWN) or "remove it: qoslet reads Pods and pod templates"


def template_of(shape: WorkloadShape, spec: WorkloadSpecShape, kind: str) -> PodShape | None:
    """The pod template of a document of this kind; None without one."""
    if kind == "PodTemplate":
        return shape.template
    if kind == "CronJob":
        job = spec.job_template
        return job.spec.template if job and job.spec else None
    return spec.template


def render_hint(place: str = "CHART") -> str:
    """What to do about the chart in the directory ``place``."""
    return f"render it first: helm template {place} | qoslet plan -f -"


def no_pod(
    problems: Sequence[Problem],
    files: Sequence[str] = (),
    bare: Sequence[str] = (),
    seen: Collection[str] = (),
) -> BadInput:
    """The fault of input that holds no pod; ``problems`` are the rows of the documents that were
    skipped, ``files`` all that were read, ``bare`` sentences about directories without any,
    ``seen`` the files that have a document."""
    codes = {problem.code: problem.hint for problem in problems}
    hint = "give Pods, a list of them, or what carries a pod template"
    if ProblemCode.NODE_AMONG_PODS in codes:
        hint = "give a Node or KubeletConfiguration with --node"
    for code in (ProblemCode.UNREAD_CONTAINERS, ProblemCode.KUSTOMIZATION):
        hint = codes.get(code, hint)
    named = {problem.where.partition(": ")[0] for problem in problems}.union(seen)
    empty = [f"{file} has no document" for file in files if file not in named]
    why = [*(f"{problem.where} skipped" for problem in problems), *empty, *bare]
    more = len(why) - NAMED_MAX
    reasons = "; ".join([*why[:NAMED_MAX], *([f"and {more} more"] if more > 0 else [])])
    message = "no pod in the input" + (f": {reasons}" if reasons else "")
    return BadInput(message, where="-f", hint=hint, fault_code=FaultCode.NO_POD)
