"""Which resources of a pod Windows enforces, approximates, or ignores.

Source: kubelet kuberuntime_container_windows.go, eviction; design: CRI Windows container
configuration; Kubernetes documentation, Windows containers and resource management.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from qoslet.core.api.pod import Container, Pod
from qoslet.core.convert.windows_job_object import Windows
from qoslet.core.oci.result import BlockResult, Parity, Verdict
from qoslet.core.quantity import ZERO
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.resources.windows_isolation import hyperv, on_host
from qoslet.core.rules.windows import MAXIMUM, milli_of_maximum

_OWN_MEMORY = 1024
"""The default memory of a Hyper-V container's VM in MiB. Source: hcsshim internal/uvm
newDefaultOptions."""


def container_parity(
    policy: NodePolicy, container: Container, part: BlockResult, windows: Windows
) -> tuple[Parity, ...]:
    """The report of a container; ``part`` is its job object."""
    if part.refusal is not None:
        how, instead = "the pod is rejected", "use Kubernetes 1.18 or later"
        if part.refusal.rule == "refused.windows.host_process":
            instead = "use process isolation"
        return (Parity("container", container.name, "absent", how, instead),)
    if policy.choices.windows == "none":
        return tuple(_unsent(policy, container))
    control = {row.file: int(row.value) for row in part.rows}
    return tuple(_container(policy, container, control, windows))


def _unsent(policy: NodePolicy, container: Container) -> Iterator[Parity]:
    """Releases before the message: the scheduler counts, nothing else does."""
    how = f"Kubernetes {policy.node.profile.kubernetes} sends no resources of Windows containers"
    for side in ("limits", "requests"):
        for name, amount in getattr(container.resources, side).items():
            if amount.nano:
                yield Parity(f"{side}.{name}", str(amount), "absent", how, "use 1.10 or later")


def _container(
    policy: NodePolicy, container: Container, control: Mapping[str, int], windows: Windows
) -> Iterator[Parity]:
    limits, requests = container.resources.limits, container.resources.requests
    cpu = limits.get("cpu", ZERO)
    if cpu.nano:
        yield _cpu_limit(str(cpu), cpu.milli, control, windows)
    if requests.get("cpu", ZERO).nano:
        yield _cpu_request(policy, str(requests["cpu"]), bool(cpu.nano), control)
    if limits.get("memory", ZERO).nano:
        memory = limits["memory"]
        yield _memory_limit(str(memory), memory.value, control.get("Memory.SizeInMB", 0), windows)
    if requests.get("memory", ZERO).nano:
        how = "the scheduler counts it; Windows has no protection and no oom_score_adj"
        instead = "kubeReserved, systemReserved and memory.available of evictionHard (500Mi)"
        yield Parity("requests.memory", str(requests["memory"]), "absent", how, instead)
    for name in sorted({*limits, *requests} - {"cpu", "memory"}):
        asked = str(limits.get(name, requests.get(name)))
        yield _other(name, asked)


def _cpu_limit(asked: str, milli: int, control: Mapping[str, int], windows: Windows) -> Parity:
    count, maximum = control.get("Processor.Count", 0), control.get("Processor.Maximum")
    processors = windows.within(count)
    if maximum is None and not count:
        how = "no cap; a weight is not a limit"
        return Parity("limits.cpu", asked, "absent", how, "use a later release")
    if maximum is None or processors is None:
        how = f"whole processors: {count}"
        whole = milli == count * 1000
        return Parity("limits.cpu", asked, "enforced" if whole else "approximated", how)
    read_back = milli_of_maximum(maximum, processors)
    unit = (
        f"each of the machine's {processors} processors"
        if windows.isolated
        else f"{processors} processors"
    )
    how = f"a hard cap at {maximum} of 10000 of {unit}, read back as {read_back}m"
    verdict: Verdict = "enforced" if read_back == milli else "approximated"
    return Parity("limits.cpu", asked, verdict, how, _scaled(maximum, processors, count, windows))


def _scaled(maximum: int, processors: int, count: int, windows: Windows) -> str:
    """The setting of the shim that scales a share of the host's processors to the VM's."""
    if not windows.isolated or count or not windows.processors or windows.processors == processors:
        return ""
    share = min(max(maximum * windows.processors // processors, 1), MAXIMUM)
    return f"ScaleCpuLimitsToSandbox of the shim: {share} of 10000, {milli_of_maximum(share, processors)}m"


def _memory_limit(asked: str, limit: int, size: int, windows: Windows) -> Parity:
    if not size:
        how = "less than 1 MiB: the shim treats 0 MiB as no limit"
        return Parity("limits.memory", asked, "absent", how, "use 1Mi or more")
    how = "a commit limit: an allocation beyond it fails, without an OOM kill"
    if windows.isolated and windows.machine is None:
        how = "the size of the VM, and a commit limit inside it"
    elif windows.isolated:
        how = f"a commit limit inside the VM, which has {_OWN_MEMORY} MiB by default"
    whole = size << 20 == limit
    if not whole:
        how += f"; {size} whole MiB of it"
    fits = not windows.isolated or windows.machine is None or size <= _OWN_MEMORY
    return Parity("limits.memory", asked, "enforced" if whole and fits else "approximated", how)


def _cpu_request(
    policy: NodePolicy, asked: str, limited: bool, control: Mapping[str, int]
) -> Parity:
    weight = control.get("Processor.Weight")
    if weight is not None and policy.choices.windows == "1.10":
        how = f"a weight of {weight}, from the limit alone; without a limit the smallest weight"
        return Parity("requests.cpu", asked, "absent", how)
    if weight is not None:
        relation = (
            "of the limit, not of the request" if limited else "among containers with a weight"
        )
        return Parity("requests.cpu", asked, "approximated", f"a weight of {weight}, {relation}")
    how = "the scheduler counts it; no weight is sent, so neighbors can use the time"
    instead = "use limits on the neighbors, or exclusive CPUs (WindowsCPUAndMemoryAffinity)"
    return Parity("requests.cpu", asked, "absent", how, instead)


def _other(name: str, asked: str) -> Parity:
    if name.startswith("hugepages-"):
        return Parity(name, asked, "absent", "Windows has no huge pages for pods", "none")
    if name == "ephemeral-storage":
        how = "the kubelet checks usage periodically, and evicts"
        return Parity(name, asked, "approximated", how)
    return Parity(name, asked, "enforced", "a device plugin provides it, as on Linux")


def pod_parity(policy: NodePolicy, pod: Pod, qos: str) -> tuple[Parity, ...]:
    """The report of the pod's own settings."""
    return tuple(_pod(policy, pod, qos))


def _pod(policy: NodePolicy, pod: Pod, qos: str) -> Iterator[Parity]:
    how = "it orders evictions; Windows has no cgroups above a container, so a class has no share"
    yield Parity("QoS class", qos, "approximated", how, "set limits on every container")
    if on_host(policy, pod):
        how = "its containers run on the host itself, without isolation: job objects limit them, no file system, network or user is their own"
        yield Parity("isolation", "hostProcess", "absent", how, "a container without hostProcess")
    elif hyperv(policy, pod):
        how = "its containers run in a VM"
        yield Parity("isolation", "hyperv", "enforced", how)
    if pod.resources is not None:
        how = "a job object belongs to one container"
        instead = "set the same limits on the containers"
        yield Parity("spec.resources", "set", "absent", how, instead)
    for name, amount in sorted(pod.overhead.items()):
        how = "the scheduler counts it; it is not a limit"
        if not policy.sum_rules.overhead:
            how = f"{policy.node.profile.kubernetes} ignores it: the gate PodOverhead is disabled"
        yield Parity(f"overhead.{name}", str(amount), "absent", how)
    if policy.node.kubelet.pod_pids_limit not in (None, -1, 0):
        how = "the process limit of a job object is not set"
        yield Parity("podPidsLimit", str(policy.node.kubelet.pod_pids_limit), "absent", how)
    how = "the kubelet rejects an in-place resize"
    yield Parity("resize", "in place", "absent", how, "create a new pod")
