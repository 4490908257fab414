"""What ``doctor`` judges, in a bundle: as it was seen, else as far as the Node document says it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from qoslet.core.api.schema import DECODE_ERRORS, encode_json, shown
from qoslet.core.bundle.redaction import Pseudonyms, mount_point
from qoslet.core.cgroup.names import DEFAULT_POINT
from qoslet.core.node.doctor.checks import can_write, findings
from qoslet.core.node.doctor.finding import DoctorFinding
from qoslet.core.node.lookup import Probed
from qoslet.core.node.machine import Controller, Machine
from qoslet.core.node.node import Node
from qoslet.errors import BadInput

_OWNERS = (
    "cgroup", "cpu", "cpuset", "memory", "pids", "io", "hugetlb", "rdma", "misc", "irq", "dmem",
)  # fmt: skip
"""What the files of a cgroup begin with."""

NOT_IN_A_NODE = (
    "user", "CAP_SYS_RESOURCE", "cgroup mount", "memory.low", "D-Bus", "kubelet",
    "container runtime", "OCI runtime", "qoslet agents", "controller io", "BFQ", "device rules",
    "cgroup namespaces", "CVE-2024-21626",
)  # fmt: skip
"""Topics of which a Node document says nothing."""


def facts_text(machine: Machine, names: Pseudonyms | None) -> bytes:
    """The part ``doctor.json``: what was seen, without what identifies the machine."""
    probed = replace(machine.probed, identity={})
    # what was seen of a directory has the cgroups in it, too
    files = frozenset(
        name for name in machine.files if name.partition(".")[0] in _OWNERS and "." in name
    )
    machine = replace(machine, probed=probed, files=files)
    if names is not None:
        machine = _redacted(machine, names)
    return encode_json(machine)


def _redacted(machine: Machine, names: Pseudonyms) -> Machine:
    """The machine with other cgroups and mount points."""

    def path(text: str) -> str:
        return names.path(text)

    probed = machine.probed
    mounts = None
    if probed.mounts is not None:
        mounts = {name: mount_point(at, names) for name, at in probed.mounts.items()}
    unified = None if probed.unified is None else mount_point(probed.unified, names)
    return replace(
        machine,
        probed=replace(probed, mounts=mounts, unified=unified),
        controllers=tuple(
            replace(one, where=mount_point(one.where, names)) for one in machine.controllers
        ),
        own_cgroup={name: path(text) for name, text in machine.own_cgroup.items()},
        kubelet_trees=_each(machine.kubelet_trees, path),
        agents=None if machine.agents is None else _each(machine.agents, path),
        left_roots=_each(machine.left_roots, path),
        silent_roots=_each(machine.silent_roots, path),
    )


def _each(texts: tuple[str, ...], work: Callable[[str], str]) -> tuple[str, ...]:
    return tuple(map(work, texts))


def read_facts(text: bytes, where: str) -> Machine:
    """The machine of a part called ``where`` in messages. Raises BadInput."""
    try:
        return msgspec.convert(_printable(msgspec.json.decode(text)), Machine, str_keys=True)
    except DECODE_ERRORS as error:
        hint = "make the bundle again with qoslet bundle"
        raise BadInput(f"cannot be read: {shown(str(error))}", where=where, hint=hint) from None


def _printable(value: Any) -> Any:
    """The value with texts as they may reach a terminal."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, list):
        return [_printable(item) for item in value]
    if isinstance(value, dict):
        return {_printable(name): _printable(item) for name, item in value.items()}
    return value


def machine_of(node: Node) -> Machine:
    """A machine as far as a Node document says it."""
    host, v2 = node.host, node.hierarchy == "v2"
    probed = Probed(
        hugepages=dict.fromkeys(host.hugepage_sizes, 0),
        pid=node.capacity["pid"].value if "pid" in node.capacity else None,
        hierarchy=node.hierarchy,
        kernel=host.kernel,
        page_size=host.page_size,
        swap_controller=host.swap_controller,
        systemd=host.systemd,
        systemd_runs=None if host.systemd is None else True,
        controllers=host.controllers,
        psi=host.psi,
        mounts=host.mounts or None,
    )
    controllers = tuple(
        Controller(
            name, DEFAULT_POINT if v2 else host.mounts.get(name, DEFAULT_POINT), node.hierarchy
        )
        for name in sorted(host.controllers or ())
    )
    options = tuple(host.mounts) if v2 else ()
    return Machine(probed=probed, layout=node.hierarchy, controllers=controllers, options=options)


def described(node: Node) -> tuple[Machine, list[DoctorFinding], bool]:
    """A machine of which only the node is known, what is to be said of it, and whether cgroups with
    CPU and memory settings can be made there."""
    machine = machine_of(node)
    unknown = {*NOT_IN_A_NODE}
    if not node.host.mounts:
        unknown |= {"nsdelegate", "memory_recursiveprot"}
    if node.host.controllers is None:
        unknown |= {f"controller {name}" for name in ("cpu", "memory", "pids", "cpuset", "hugetlb")}
    rows = [row for row in findings(machine) if row.topic not in unknown]
    cost = "rights, programs and some features of the kernel are not known"
    remedy = "make the bundle with qoslet bundle"
    rows.append(DoctorFinding("doctor.json", "unknown", "not in the bundle", cost, remedy))
    bound = [machine.bound(name) for name in ("cpu", "memory")]
    return machine, rows, node.host.controllers is None or all(bound)


def doctor_view(machine: Machine, audit: str = "") -> tuple[Machine, list[DoctorFinding], bool]:
    """A machine with what ``doctor`` says of it, and whether qoslet can make cgroups there; ``audit`` compares
    the cgroups of its kubelet with their plan."""
    return machine, findings(machine, audit=audit), can_write(machine)
