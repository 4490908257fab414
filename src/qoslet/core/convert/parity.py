"""What of a pod's resources Windows enforces, approximates, or cannot do.

Source: kubelet kuberuntime_container_windows.go, eviction; design: CRI Windows container
configuration; Kubernetes documentation, Windows containers and resource management.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from qoslet.core.basis import Basis
from qoslet.core.convert.answer import Parity
from qoslet.core.pod import Container, Pod
from qoslet.core.quantity import ZERO
from qoslet.core.rules.windows import milli_of_maximum


def container_parity(
    basis: Basis, container: Container, control: Mapping[str, int], isolated: bool
) -> tuple[Parity, ...]:
    """The report of a container; ``control`` is what its object got, by field."""
    return tuple(_container(basis, container, control, isolated))


def _container(
    basis: Basis, container: Container, control: Mapping[str, int], isolated: bool
) -> Iterator[Parity]:
    limits, requests = container.resources.limits, container.resources.requests
    cpu = limits.get("cpu", ZERO)
    if cpu.nano:
        yield _cpu_limit(basis, str(cpu), cpu.milli, control, isolated)
    if requests.get("cpu", ZERO).nano:
        yield _cpu_request(str(requests["cpu"]), bool(cpu.nano), control)
    if limits.get("memory", ZERO).nano:
        how = "a commit limit: an allocation beyond it fails, nothing is OOM-killed"
        if isolated:
            how = "the machine's size; and a commit limit inside it"
        yield Parity("limits.memory", str(limits["memory"]), "enforced", how)
    if requests.get("memory", ZERO).nano:
        how = "it is counted by the scheduler; there is no protection, and no oom_score_adj"
        instead = "kubeReserved, systemReserved and memory.available of evictionHard (500Mi)"
        yield Parity("requests.memory", str(requests["memory"]), "absent", how, instead)
    for name in sorted({*limits, *requests} - {"cpu", "memory"}):
        asked = str(limits.get(name, requests.get(name)))
        yield _other(name, asked)


def _cpu_limit(
    basis: Basis, asked: str, milli: int, control: Mapping[str, int], isolated: bool
) -> Parity:
    count, maximum = control.get("Processor.Count"), control.get("Processor.Maximum")
    if maximum is None and count is None:
        how = "no cap is sent; a weight bounds nothing"
        return Parity("limits.cpu", asked, "absent", how, "a later release")
    if maximum is None:
        how = f"whole processors: {count}"
        return Parity("limits.cpu", asked, "enforced" if milli == (count or 0) * 1000 else
                      "approximated", how)  # fmt: skip
    of = count if isolated and count else basis.processors
    back = milli_of_maximum(maximum, of)
    unit = "each of the machine's processors" if isolated else f"{of} processors"
    how = f"a hard cap at {maximum} of 10000 of {unit}, read back as {back}m"
    return Parity("limits.cpu", asked, "enforced" if back == milli else "approximated", how)


def _cpu_request(asked: str, limited: bool, control: Mapping[str, int]) -> Parity:
    weight = control.get("Processor.Weight")
    if weight is not None:
        of = "of the limit, not of the request" if limited else "among those who have one"
        return Parity("requests.cpu", asked, "approximated", f"a weight of {weight}, {of}")
    how = "it is counted by the scheduler; no weight is sent, so neighbours may take the time"
    instead = "limits on the neighbours, or CPUs of its own (WindowsCPUAndMemoryAffinity)"
    return Parity("requests.cpu", asked, "absent", how, instead)


def _other(name: str, asked: str) -> Parity:
    if name.startswith("hugepages-"):
        return Parity(name, asked, "absent", "Windows has no hugepages for pods", "none")
    if name == "ephemeral-storage":
        how = "the kubelet looks at usage now and then, and evicts"
        return Parity(name, asked, "approximated", how)
    return Parity(name, asked, "enforced", "a device plugin hands it out, as on Linux")


def pod_parity(basis: Basis, pod: Pod, qos: str) -> tuple[Parity, ...]:
    """The report of what a pod has above its containers."""
    return tuple(_pod(basis, pod, qos))


def _pod(basis: Basis, pod: Pod, qos: str) -> Iterator[Parity]:
    how = "it orders evictions; there are no groups above a container, so no class has a share"
    yield Parity("QoS class", qos, "approximated", how, "limits on every container")
    if pod.resources is not None:
        how = "a job object is one container's"
        instead = "the same limits on the containers"
        yield Parity("spec.resources", "set", "absent", how, instead)
    for name, amount in sorted(pod.overhead.items()):
        how = "it is counted by the scheduler, and bounds nothing"
        yield Parity(f"overhead.{name}", str(amount), "absent", how)
    if basis.node.kubelet.pod_pids_limit not in (None, -1, 0):
        how = "a job object's process limit is not set"
        yield Parity("podPidsLimit", str(basis.node.kubelet.pod_pids_limit), "absent", how)
    how = "a resize in place is refused"
    yield Parity("resize", "in place", "absent", how, "a new pod")
