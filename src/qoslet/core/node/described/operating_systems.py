"""Which cgroup hierarchy a node has by its OS image and kernel, as an API Node reports them.

The OS image is ``PRETTY_NAME`` of os-release. A row says what a distribution does unless its owner
asks otherwise at boot, which no document shows.
"""

from __future__ import annotations

from msgspec import Struct

from qoslet.core.node.node import Hierarchy

Version = tuple[int, ...]


class OperatingSystem(Struct, frozen=True):
    """A distribution: how its OS image begins, and the versions that have cgroup v1.

    ``v1`` lists ranges (first, first after it); None: the image does not tell. ``mark`` stands before
    the version where the image holds several; ``of_kernel``: the version is the kernel's.
    """

    names: tuple[str, ...]
    v1: tuple[tuple[Version, Version], ...] | None
    source: str
    mark: str = ""
    of_kernel: bool = False
    systemd: bool = True


_RUNC = "runc docs/cgroup-v2.md"
_KUBERNETES = "kubernetes.io/docs/concepts/architecture/cgroups"

OPERATING_SYSTEMS: tuple[OperatingSystem, ...] = (
    OperatingSystem(
        ("Amazon Linux",),
        (((0,), (2022,)),),
        "AL2023 user guide, cgroupv2: AL2 has v1, AL2023 v2",
    ),
    OperatingSystem(
        ("Bottlerocket OS",),
        (((0,), (1, 26)),),
        "Bottlerocket 1.13.0: variants of Kubernetes 1.26 and later have v2",
        mark="k8s-",
    ),
    OperatingSystem(
        ("Container-Optimized OS",),
        (((0,), (5, 10)),),
        f"{_KUBERNETES}: v2 since M97, which has Linux 5.10",
        of_kernel=True,
    ),
    OperatingSystem(
        ("Debian GNU/Linux", "Raspbian GNU/Linux"), (((0,), (11,)),), f"{_RUNC}: v2 since 11"
    ),
    OperatingSystem(("Ubuntu",), (((0,), (21, 10)),), f"{_RUNC}: v2 since 21.10"),
    OperatingSystem(
        ("Fedora CoreOS",), (((0,), (34,)),), "Fedora CoreOS tracker, issue 292: v2 since 34"
    ),
    OperatingSystem(("Fedora",), (((0,), (31,)),), f"{_RUNC}: v2 since 31"),
    OperatingSystem(
        ("Red Hat Enterprise Linux CoreOS",),
        # 4.2 to 4.9 are 42 to 49, 4.10 to 4.18 are 410 to 418, later ones are numbered as RHEL.
        (((0,), (9,)), ((40,), (414,))),
        "OpenShift 4.14 documentation, Configuring Linux cgroup: v2 in new clusters since 4.14",
    ),
    OperatingSystem(
        (
            "Red Hat Enterprise Linux",
            "CentOS",
            "Rocky Linux",
            "AlmaLinux",
            "Oracle Linux",
            "Scientific Linux",
        ),
        (((0,), (9,)),),
        f"{_RUNC}: v2 since 9, in RHEL and what is like it",
    ),
    OperatingSystem(
        ("Flatcar Container Linux", "Container Linux by CoreOS"),
        (((0,), (2969,)),),
        "flatcar.org, Switching to Unified Cgroups: v2 since 2969.0.0",
    ),
    OperatingSystem(("openSUSE Leap Micro",), None, "numbered apart from openSUSE Leap"),
    OperatingSystem(
        ("SUSE Linux Enterprise Server", "SUSE Linux Enterprise Desktop", "openSUSE Leap"),
        (((0,), (16,)),),
        "SLES 15 SP5 tuning guide, Kernel control groups: hybrid by default; SLES 16.0: unified",
    ),
    OperatingSystem(
        ("openSUSE Tumbleweed", "openSUSE MicroOS", "Arch Linux"), (), f"{_RUNC}: v2 since 2021"
    ),
    OperatingSystem(
        ("VMware Photon",),
        (((0,), (6, 1)),),
        "Photon OS 5.0 release notes: v2; it has Linux 6.1",
        of_kernel=True,
    ),
    OperatingSystem(
        ("Alibaba Cloud Linux", "Aliyun Linux"),
        (((0,), (4,)),),
        "ACK documentation, Migrate nodes to cgroup v2: v2 by default in Alibaba Cloud Linux 4",
    ),
    OperatingSystem(
        ("Talos",), (), "Talos Linux documentation: v2 by default, machined is PID 1", systemd=False
    ),
    OperatingSystem(("Alpine Linux",), None, "OpenRC is PID 1's service manager", systemd=False),
    OperatingSystem(
        ("Docker Desktop",), (), "Docker Desktop 4.3.0 release notes: v2", systemd=False
    ),
)
"""The first row of which a name fits decides; longer names stand first."""

_KERNELS: tuple[tuple[str, Hierarchy], ...] = (
    (".amzn1.", "v1"),
    (".amzn2.", "v1"),
    (".el6", "v1"),
    (".el7", "v1"),
    (".el8", "v1"),
    (".amzn2023.", "v2"),
    (".el9", "v2"),
)
"""What distributions put into their kernels' versions; these have the hierarchy of their rows."""


def row_of(image: str) -> OperatingSystem | None:
    """The row of an OS image."""
    folded = image.casefold()
    for row in OPERATING_SYSTEMS:
        if any(folded.startswith(name.casefold()) for name in row.names):
            return row
    return None


def number(text: str) -> Version:
    """The first version in a text; empty without one."""
    start = next((at for at, sign in enumerate(text) if sign in "0123456789"), len(text))
    parts: list[int] = []
    for part in text[start : start + 40].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if digits:
            parts.append(int(digits))
        if digits != part:
            break
    return tuple(parts)


def by_image(image: str, kernel: str) -> Hierarchy | None:
    """The hierarchy that an OS image has; None where its row does not tell, or has no version."""
    row = row_of(image)
    if row is None or row.v1 is None:
        return None
    if not row.v1:
        return "v2"
    if row.of_kernel:
        version = number(kernel)
    else:
        _, found, rest = image.partition(row.mark) if row.mark else ("", " ", image)
        version = number(rest) if found else ()
    if not version:
        return None
    return "v1" if any(low <= version < high for low, high in row.v1) else "v2"


def by_kernel(kernel: str) -> Hierarchy | None:
    """The hierarchy of the distribution that made a kernel, by the kernel's version."""
    return next((hierarchy for mark, hierarchy in _KERNELS if mark in kernel), None)


def has_systemd(image: str) -> bool:
    """Whether systemd is PID 1 of an OS image; of an unknown one it is."""
    row = row_of(image)
    return row is None or row.systemd
