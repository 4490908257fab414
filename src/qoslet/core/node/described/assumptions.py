"""What is assumed of a machine that only documents describe, each with the reason.

Nothing here looks at a machine. Whatever the documents say stands above it.
"""

from __future__ import annotations

from msgspec import Struct

from qoslet.core.cgroup.names import DriverName
from qoslet.core.node.described import operating_systems
from qoslet.core.node.documents.sources import Fields
from qoslet.core.node.node import Hierarchy

OLDEST_KERNEL = (5, 8)
"""The first kernel for cgroup v2: kubernetes.io/docs/concepts/architecture/cgroups."""

PID_MAX = 1 << 22
"""kernel.pid_max with systemd since 243 on 64-bit machines: systemd sysctl.d/50-pid-max.conf."""

KERNEL_PID_MAX, PIDS_OF_A_CPU = 1 << 15, 1 << 10
"""kernel.pid_max as the kernel sets it: kernel/pid.c pid_idr_init, PIDS_PER_CPU_DEFAULT."""

THREAD = 1 << 17
"""Bytes of memory for each thread of kernel.threads-max: kernel/fork.c set_max_threads, an eighth
of memory in stacks of 16Ki."""


class Clues(Struct, frozen=True):
    """What documents say: ``release`` as text with its ``minor``, which ``reported`` tells is what
    the node itself runs and not a choice of the reader."""

    image: str = ""
    kernel: str = ""
    version: operating_systems.Version = ()
    """Of the kernel, its first two numbers; empty where it is not known."""
    architecture: str = ""
    release: str = ""
    minor: int | None = None
    reported: bool = False
    driver: str = ""
    """The cgroup driver that the kubelet's configuration names."""
    allows_v1: bool = False
    """Whether ``failCgroupV1: false`` is written there."""


def clues_of(own: Fields, api: Fields, kubelet: Fields, asked_release: str | None) -> Clues:
    """What qoslet's Node and the API's say of a described machine. The release that the node reports says more of
    its hierarchy than the one that a flag asks about."""

    def said(field: str) -> str:
        value = (own.get(field) or api.get(field) or ("",))[0]
        return value[:200] if isinstance(value, str) and value.isprintable() else ""

    reported, kernel = said("kubernetes"), said("host.kernel")
    text = reported or asked_release or ""
    numbers = text.removeprefix("v").split(".")
    minor = numbers[1].rstrip("+") if len(numbers) > 1 and numbers[0] == "1" else ""
    return Clues(
        image=said("osImage"),
        kernel=kernel,
        version=operating_systems.number(kernel)[:2],
        architecture=said("architecture"),
        release=text,
        minor=int(minor) if minor.isascii() and minor.isdigit() and len(minor) < 6 else None,
        reported=bool(reported),
        driver=str(kubelet.get("cgroupDriver", ("", ""))[0]),
        allows_v1=kubelet.get("failCgroupV1", (None, ""))[0] is False,
    )


def hierarchy(clues: Clues) -> tuple[Hierarchy, str]:
    """The hierarchy of the node, and why."""
    minor = clues.minor
    if minor is not None and clues.reported and minor < 19:
        return "v1", f"{clues.release} knows only cgroup v1"
    if minor is not None and minor >= 35 and clues.allows_v1:
        return "v1", f"failCgroupV1: false, which {clues.release} needs on cgroup v1 only"
    if minor is not None and clues.reported and minor < 26 and "-gke." in clues.release:
        return "v1", f"GKE {clues.release}: nodes before 1.26 have cgroup v1"
    found = operating_systems.by_image(clues.image, clues.kernel)
    if found:
        return found, clues.image
    found = operating_systems.by_kernel(clues.kernel)
    if found:
        return found, f"kernel {clues.kernel}"
    if clues.version and clues.version < OLDEST_KERNEL:
        return "v1", f"kernel {clues.kernel}: cgroup v2 needs 5.8"
    if minor is not None and minor < 19:
        return "v1", f"{clues.release} knows only cgroup v1"
    if minor is not None and minor >= 35 and clues.reported:
        return "v2", f"{clues.release} rejects cgroup v1 by default"
    return "v2", "no OS image, kernel or release says v1"


def driver(clues: Clues, found: Hierarchy) -> tuple[DriverName, str]:
    """The driver of a node whose kubelet's configuration is not known, and why.

    Source: kubernetes.io container runtimes, cgroup drivers: systemd where systemd is PID 1, above
    all with cgroup v2; the kubelet's own default is cgroupfs.
    """
    if not operating_systems.has_systemd(clues.image):
        return "cgroupfs", f"{clues.image} does not run systemd"
    if found == "v2":
        return "systemd", "cgroup v2 is used with systemd"
    return "cgroupfs", "the kubelet's default"


def page_size(clues: Clues) -> tuple[int, str]:
    """The size of a page in bytes, and why. Source: the kernels' CONFIG_*_64K_PAGES: ppc64le, RHEL 8
    on arm64, and kernels that say so in their names."""
    large = clues.architecture == "ppc64le" or "64k" in clues.kernel
    if large or (clues.architecture == "arm64" and ".el8" in clues.kernel):
        return 65536, clues.kernel if "64k" in clues.kernel else f"kernel of {clues.architecture}"
    return 4096, clues.architecture or "most machines"


def hugepage_sizes(clues: Clues, page: int) -> tuple[tuple[int, ...], str]:
    """The sizes of hugepages in bytes, and why. Source: the kernel's Documentation/arch/arm64/
    hugetlbpage.rst; amd64 has 2Mi and 1Gi."""
    if clues.architecture == "arm64":
        if page == 65536:
            return (2 << 20, 512 << 20, 16 << 30), "arm64 with pages of 64Ki"
        return (64 << 10, 2 << 20, 32 << 20, 1 << 30), "arm64"
    if clues.architecture in ("", "amd64"):
        return (2 << 20, 1 << 30), "amd64"
    return (), f"not known of {clues.architecture}"


def pids(clues: Clues, memory: int, cpus: int) -> tuple[int, str]:
    """The smaller of kernel.pid_max and kernel.threads-max with so much memory, and why. A kubelet
    with the cgroupfs driver is taken for one beside no systemd."""
    most, why = PID_MAX, "kernel.pid_max of systemd"
    if clues.driver == "cgroupfs":
        most, why = max(KERNEL_PID_MAX, PIDS_OF_A_CPU * cpus), "kernel.pid_max without systemd"
    if memory // THREAD < most:
        return memory // THREAD, "kernel.threads-max: memory / 128Ki"
    return most, why
