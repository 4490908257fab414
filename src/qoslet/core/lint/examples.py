"""For each rule of lint a document on which it fires, and one on which it does not.

The tests run every one of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

Flags = Mapping[str, str]

_GATE = {"kubernetes": "1.36", "feature_gates": "MemoryQoS=true"}


class Example(Struct, frozen=True):
    """Texts of pods, or of a KubeletConfiguration (``is_node``); ``flags`` describe the node."""

    fires: str
    quiet: str
    flags: Flags = {}
    is_node: bool = False


def _pod(container: str, more: str = "", before: str = "") -> str:
    lines = [
        "apiVersion: v1",
        "kind: Pod",
        "metadata: {name: web}",
        "spec:",
        *(f"  {line}" for line in before.splitlines()),
        "  containers:",
        "  - name: app",
        "    image: example.org/app",
        *(f"    {line}" for line in container.splitlines()),
        *(f"  {line}" for line in more.splitlines()),
    ]
    return "\n".join(lines) + "\n"


def _of(resources: str) -> str:
    return _pod(f"resources: {{{resources}}}")


def _pods(fires: str, quiet: str, **flags: str) -> Example:
    return Example(_of(fires), _of(quiet), flags)


def _kubelet(text: str) -> str:
    return (
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        + text.strip()
        + "\n"
    )


def _nodes(fires: str, quiet: str, **flags: str) -> Example:
    return Example(_kubelet(fires), _kubelet(quiet), flags, is_node=True)


def _annotated(text: str) -> str:
    annotations = f"metadata: {{name: web, annotations: {{qoslet.dev/{text}}}}}"
    return _pod("resources: {}").replace("metadata: {name: web}", annotations)


def _ignoring(text: str) -> str:
    annotations = f'metadata: {{name: web, annotations: {{qoslet.dev/lint-ignore: "{text}"}}}}'
    return _pod("resources: {}").replace("metadata: {name: web}", annotations)


def _two(first: str, second: str) -> str:
    return _pod(
        f"resources: {{{first}}}",
        f"- name: mesh\n  image: example.org/mesh\n  resources: {{{second}}}",
    )


_EQUAL = 'requests: {cpu: "1", memory: 1Gi}, limits: {cpu: "1", memory: 1Gi}'
_BURST = "requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}"
_EXEC = "livenessProbe: {exec: {command: [check]}%s}\nresources: {%s}"
_CACHE = "volumeMounts: [{name: cache, mountPath: /cache}]\nresources: {%s}"
_VOLUME = "volumes:\n- name: cache\n  emptyDir: {medium: Memory%s}"
_HUGE = 'requests: {cpu: "1", memory: 1Gi}, limits: {hugepages-2Mi: 64Mi, cpu: "1", memory: 1Gi}'
_WINDOWS = "os: {name: windows}"

EXAMPLES: Mapping[str, Example] = {
    "QL000": Example(_ignoring("QL022"), _ignoring("QL022: it is small")),
    "QL001": _pods("limits: {cpu: 5m}", "limits: {cpu: 10m}"),
    "QL002": _pods("requests: {cpu: 2m}", "requests: {cpu: 500m}"),
    "QL003": _pods("limits: {cpu: 50m}", "limits: {cpu: 500m}"),
    "QL004": _pods("requests: {memory: 64Mi}", "requests: {memory: 64Mi, cpu: 100m}"),
    "QL005": _pods('requests: {cpu: "500"}', "requests: {cpu: 500m}"),
    "QL006": Example(
        _of("limits: {cpu: 1500m, memory: 1Gi}"),
        _of('limits: {cpu: "2", memory: 1Gi}'),
        {"cpu_manager_policy": "static", "reserved_cpus": "0", "kubernetes": "1.36"},
    ),
    "QL007": _pods(
        'requests: {cpu: 10m}, limits: {cpu: "2"}', 'requests: {cpu: "1"}, limits: {cpu: "2"}'
    ),
    "QL008": Example(
        _kubelet("podPidsLimit: 1024"),
        _kubelet("podPidsLimit: 1024"),
        {"runtime": "runc-1.4.0", "quiet runtime": "runc-1.3.1"},
        is_node=True,
    ),
    "QL020": _pods("limits: {memory: 128m}", "limits: {memory: 128Mi}"),
    "QL021": _pods("limits: {memory: 4Mi}", "limits: {memory: 16Mi}"),
    "QL022": _pods("requests: {memory: 64Mi}", "limits: {memory: 64Mi}"),
    "QL023": _pods("requests: {cpu: 100m}", "requests: {cpu: 100m, memory: 64Mi}"),
    "QL024": _pods("limits: {memory: 1Gi}", "requests: {memory: 64Mi}, limits: {memory: 1Gi}"),
    "QL025": _pods(
        "requests: {memory: 64Mi}, limits: {memory: 1Gi}",
        "requests: {memory: 512Mi}, limits: {memory: 1Gi}",
    ),
    "QL026": Example(_of(_EQUAL), _of(_BURST), {"memory_qos": "1.27", "kubernetes": "1.36"}),
    "QL027": Example(
        _of(_BURST),
        _of("limits: {cpu: 100m}"),
        {"memory_qos": "design", "kubernetes": "1.36", "enforce_node_allocatable": "none"},
    ),
    "QL028": Example(
        _of("requests: {memory: 1000Mi}, limits: {memory: 1010Mi}"),
        _of("requests: {memory: 64Mi}, limits: {memory: 1Gi}"),
        _GATE,
    ),
    "QL029": Example(_of(_BURST), _of(_EQUAL), _GATE),
    "QL030": Example(_annotated("memory-high: 80%"), _annotated("memory-high: 80Mi")),
    "QL031": Example(_annotated("memory-hihg: max"), _annotated("memory-high: max")),
    "QL040": Example(_pod(""), _of("requests: {cpu: 100m}")),
    "QL041": Example(_two(_EQUAL, _BURST), _two(_EQUAL, _EQUAL)),
    "QL042": Example(
        _pod(_EXEC % ("", _BURST)),
        _pod(f"livenessProbe: {{tcpSocket: {{port: 80}}}}\nresources: {{{_BURST}}}"),
    ),
    "QL043": Example(
        _pod(_EXEC % ("", "requests: {cpu: 10m}")),
        _pod(_EXEC % (", timeoutSeconds: 10", "requests: {cpu: 10m}")),
    ),
    "QL044": Example(
        _pod("", before="priorityClassName: system-node-critical"),
        _pod("", before="priorityClassName: important"),
    ),
    "QL045": Example(
        _pod(
            "resources: {requests: {cpu: 100m}}",
            before="initContainers:\n- name: migrate\n  image: example.org/app\n"
            '  resources: {requests: {cpu: "4"}}',
        ),
        _pod(
            "resources: {requests: {cpu: 100m}}",
            before="initContainers:\n- name: migrate\n  image: example.org/app\n"
            "  resources: {requests: {cpu: 100m}}",
        ),
    ),
    "QL060": Example(
        _pod(_CACHE % "", _VOLUME % ""), _pod(_CACHE % "", _VOLUME % ", sizeLimit: 64Mi")
    ),
    "QL061": Example(
        _pod(_CACHE % "limits: {memory: 64Mi}", _VOLUME % ", sizeLimit: 64Mi"),
        _pod(_CACHE % "limits: {memory: 128Mi}", _VOLUME % ", sizeLimit: 64Mi"),
    ),
    "QL062": Example(
        _of(_HUGE),
        _pod(
            f"volumeMounts: [{{name: huge, mountPath: /huge}}]\nresources: {{{_HUGE}}}",
            "volumes:\n- name: huge\n  emptyDir: {medium: HugePages}",
        ),
    ),
    "QL080": _pods('requests: {cpu: "64"}', 'requests: {cpu: "1"}'),
    "QL081": Example(
        _pod("", before='resources: {requests: {cpu: "1"}}'),
        _of('requests: {cpu: "1"}'),
        {"kubernetes": "1.31"},
    ),
    "QL082": Example(
        _pod(
            "",
            "- {name: mesh, image: example.org/mesh}",
            "resources: {limits: {memory: 1Gi}}",
        ),
        _pod("", before="resources: {limits: {memory: 1Gi}}"),
        {"kubernetes": "1.36"},
    ),
    "QL100": Example(
        _pod("resources: {requests: {memory: 64Mi}}", before=_WINDOWS),
        _pod("resources: {limits: {memory: 64Mi}}", before=_WINDOWS),
    ),
    "QL101": Example(
        _pod('resources: {requests: {cpu: 500m}, limits: {cpu: "1"}}', before=_WINDOWS),
        _pod("resources: {requests: {cpu: 500m}}", before=_WINDOWS),
    ),
    "QL102": Example(
        _pod(_CACHE % "", _VOLUME % "", _WINDOWS),
        _pod("", "volumes:\n- {name: a, emptyDir: {}}", _WINDOWS),
    ),
    "QL120": _nodes("podPidsLimit: -1", "podPidsLimit: 4096"),
    "QL121": _nodes("podPidsLimit: 32768\nmaxPods: 250", "podPidsLimit: 100\nmaxPods: 110"),
    "QL122": _nodes("enforceNodeAllocatable: [none]", "enforceNodeAllocatable: [pods]"),
    "QL123": _nodes("kubeReserved: {cpu: 500m}", "kubeReserved: {memory: 1Gi}"),
    "QL124": _nodes(
        "evictionHard: {nodefs.available: 10%}", "evictionHard: {memory.available: 200Mi}"
    ),
    "QL125": _nodes(
        "enforceNodeAllocatable: [pods, kube-reserved]\nkubeReservedCgroup: /kube\n"
        "kubeReserved: {memory: 200Mi}",
        "enforceNodeAllocatable: [pods]\nkubeReserved: {memory: 200Mi}",
    ),
    "QL126": _nodes(
        "featureGates: {CustomCPUCFSQuotaPeriod: true}\ncpuCFSQuotaPeriod: 5ms",
        "cpuCFSQuotaPeriod: 100ms",
    ),
    "QL127": Example(
        _kubelet("featureGates: {MemoryQoS: true}\nfailCgroupV1: false"),
        _kubelet("failCgroupV1: false"),
        {"hierarchy": "v1", "kubernetes": "1.36"},
        is_node=True,
    ),
    "QL128": Example(
        _kubelet("featureGates: {MemoryQoS: true}"),
        _kubelet("featureGates: {MemoryQoS: true}\nmemoryThrottlingFactor: 1.0"),
        {"kubernetes": "1.36"},
        is_node=True,
    ),
    "QL129": _nodes(
        'featureGates: {QOSReserved: true}\nqosReserved: {memory: "100%"}',
        'featureGates: {QOSReserved: true}\nqosReserved: {memory: "50%"}',
    ),
    "QL130": _nodes("cgroupDriver: cgroupfs", "cgroupDriver: systemd"),
    "QL131": _nodes(
        "memorySwap: {swapBehavior: LimitedSwap}\nfailSwapOn: false",
        "memorySwap: {swapBehavior: NoSwap}\nfailSwapOn: false",
    ),
    "QL132": _nodes(
        "cgroupsPerQOS: false\nenforceNodeAllocatable: [none]",
        "enforceNodeAllocatable: [none]",
    ),
}
