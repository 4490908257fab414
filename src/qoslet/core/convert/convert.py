"""A document's resource blocks into another form: the work behind ``convert``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, structs

from qoslet.core.api.pod import Container, Pod
from qoslet.core.cgroup.features import WHOLE, Ground
from qoslet.core.convert.cri_message import block_of_message, lost_of, part_of_block, refusal_of
from qoslet.core.convert.inputs import Given, Kind, blocks_of, kind_of, windows_message
from qoslet.core.convert.options import TARGETS, Target, check_options
from qoslet.core.convert.windows_fields import Fields, as_cri, as_oci, fields_of
from qoslet.core.convert.windows_fields import lost_of as lost_of_windows
from qoslet.core.convert.windows_job_object import OWN_MACHINE, PROCESS, Windows, object_part
from qoslet.core.convert.windows_parity import container_parity, pod_parity
from qoslet.core.node.node import Node
from qoslet.core.oci.resources import Block, Cpu, plain
from qoslet.core.oci.result import Hierarchy, Lost, Part, Refusal, Row
from qoslet.core.oci.unit_rows import unit_rows
from qoslet.core.oci.unsupported import ACCOUNTING_V2, SANDBOX
from qoslet.core.oci.write import Update, files
from qoslet.core.plan.messages import cri as cri_messages
from qoslet.core.plan.messages import oci as oci_messages
from qoslet.core.plan.plan import plan
from qoslet.core.plan.pod_planner import Planner
from qoslet.core.problem import Problem
from qoslet.core.resources.cgroup_tree import Cgroup
from qoslet.core.resources.cgroup_writer import linux_cri
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.resources.windows import hyperv, windows_cri, windows_oci, windows_settings
from qoslet.core.versions.runtime import Runtime, converting_runtime
from qoslet.errors import BadInput

Driver = Literal["cgroupfs", "systemd"]
NEWEST_SYSTEMD = 260

LACKS = ("bfq", "iocost", "rsvd", "swap")
"""What a kernel may lack, by the names of ``Ground``."""


_NOT_WINDOWS = "use --to windows for windows.resources, WindowsContainerResources or a pod"

_PAUSE = Block(cpu=Cpu(shares=2))
"""What a CRI runtime gives the container that holds a sandbox. Source: containerd
pkg/cri/server defaultSandboxCPUshares."""


class Wish(Struct, frozen=True):
    """Into what, and as whom: see ``wish_of``."""

    to: Target
    runtime: Runtime
    hierarchy: Hierarchy
    driver: Driver = "cgroupfs"
    ground: Ground = WHOLE
    systemd: int = NEWEST_SYSTEMD
    update: Update | None = None
    windows: Windows = PROCESS


class Conversion(Struct, frozen=True):
    """The answer: a part for each resource block of the input."""

    source: Kind
    wish: Wish
    parts: tuple[Part, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def stands(self) -> bool:
        """Whether no block is refused and no problem is an error."""
        refused = any(part.refusal is not None for part in self.parts)
        return not refused and all(row.severity != "error" for row in self.problems)

    @property
    def accounting(self) -> tuple[Lost, ...]:
        """What the hierarchy does not account for, whatever a block says."""
        files = self.wish.to in ("v2", "systemd") and self.wish.hierarchy == "v2"
        return ACCOUNTING_V2 if files else ()


def wish_of(
    to: str,
    runtime: str,
    *,
    driver: str = "cgroupfs",
    hierarchy: str | None = None,
    update: bool = False,
    before: Block | None = None,
    usage: tuple[int, int] | None = None,
    without: Sequence[str] = (),
    windows: Windows = PROCESS,
) -> Wish:
    """Checked options. ``hierarchy`` is for systemd, v2 by default; ``before`` is the block that an
    updated container has, ``usage`` its memory.current and memory.swap.current in bytes;
    ``without`` names what the kernel lacks (``LACKS``). Raises BadInput."""
    if to not in TARGETS:
        raise BadInput(f"unknown target {to!r}", where="--to", hint=", ".join(TARGETS))
    check_options(runtime, driver, hierarchy, update, usage)
    try:
        named = converting_runtime(runtime)
    except ValueError as error:
        raise BadInput(str(error), where="--runtime") from None
    wrong = [name for name in without if name not in LACKS]
    if wrong:
        hint = f"known are {', '.join(LACKS)}"
        raise BadInput(f"unknown kernel feature {wrong[0]!r}", where="--without", hint=hint)
    if to in ("v1", "v2"):
        if hierarchy not in (None, to):
            raise BadInput(
                f"--to {to} has another hierarchy than {hierarchy}",
                where="--hierarchy",
                hint="leave it out",
            )
        hierarchy = to
    ground = structs.replace(WHOLE, **dict.fromkeys(without, False)) if without else WHOLE
    if named.cri is None:
        named = structs.replace(named, cri="containerd", hugetlb=False, swap_from_limit=True)
    return Wish(
        to,
        named,
        "v1" if hierarchy == "v1" else "v2",
        "systemd" if driver == "systemd" or to == "systemd" else "cgroupfs",
        ground,
        update=Update(before or Block(), *(usage or (None, 0))) if update else None,
        windows=windows,
    )


def convert_document(
    given: Mapping[str, Any], wish: Wish, source: Kind | None = None, where: str = "text"
) -> Conversion:
    """A decoded document that is no pod. Raises BadInput."""
    kind = source or kind_of(given, where)
    if kind == "pod":
        raise BadInput("is a pod", where=where, hint="it takes a node")
    if wish.to == "windows" and kind == "cri":
        bare = windows_message(given, where)
        if bare is not None:
            return Conversion(kind, wish, (part_of(bare, wish),))
    problems: list[Problem] = []
    found = blocks_of(given, kind, where, problems)
    parts = tuple([part_of(one, wish) for one in found])
    return Conversion(kind, wish, parts, tuple(problems))


def part_of(given: Given, wish: Wish) -> Part:
    """One resource block, converted."""
    if given.block is not None:
        return _named(_part_of_block(given.block, wish, given.where), given.name)
    if given.message is None:
        return _named(_windows_part(given, wish), given.name)
    if wish.to == "windows":
        raise BadInput("is of a Linux container", where=given.where, hint=_NOT_WINDOWS)
    message, runtime = given.message, wish.runtime
    if wish.to == "cri":
        fields = linux_cri(message.resources)
        lists = {"cpuset_cpus": message.cpus, "cpuset_mems": message.mems}
        fields |= {name: text for name, text in lists.items() if text}
        return Part(message=fields, name=given.name)
    if given.sandbox and wish.to != "oci":
        part = _part_of_block(_PAUSE, wish, given.where)
        return Part(part.rows, None, (SANDBOX,), name=given.name)
    refusal = refusal_of(message, runtime)
    if refusal is not None:
        return Part(refusal=refusal, name=given.name)
    part = _part_of_block(block_of_message(message, runtime, wish.ground.swap), wish, given.where)
    beside = lost_of(message, runtime)
    return structs.replace(part, lost=(*beside, *part.lost), name=given.name)


def _named(part: Part, name: str) -> Part:
    return structs.replace(part, name=name) if name else part


def _windows_part(given: Given, wish: Wish) -> Part:
    fields = fields_of(given.windows or {}, given.where)
    if wish.to == "windows":
        return object_part(fields, wish.windows)
    if wish.to in ("cri", "oci"):
        message = as_cri(fields) if wish.to == "cri" else as_oci(fields)
        return Part(message=message, lost=lost_of_windows(fields, wish.to))
    hint = "--to windows, cri or oci"
    raise BadInput("is of a Windows container", where=given.where, hint=hint)


def _part_of_block(block: Block, wish: Wish, where: str) -> Part:
    if wish.to == "windows":
        raise BadInput("is of a Linux container", where=where, hint=_NOT_WINDOWS)
    if wish.to == "oci":
        return Part(message=plain(block))
    if wish.to == "cri":
        return part_of_block(block)
    systemd = wish.driver == "systemd"
    part = files(block, wish.hierarchy, wish.runtime, wish.ground, wish.update, systemd)
    if wish.to != "systemd":
        return part
    return _as_unit(part, block, wish)


def _as_unit(part: Part, block: Block, wish: Wish) -> Part:
    try:
        rows = unit_rows(part.rows, block, wish.hierarchy, wish.runtime, wish.systemd)
    except ValueError as error:
        refusal = Refusal("unified", str(error), "refused.unified", ("", str(error)))
        return structs.replace(part, rows=(), refusal=refusal)
    return structs.replace(part, rows=rows)


def convert_pods(
    pods: Sequence[Pod], node: Node, wish: Wish, problems: Sequence[Problem] = ()
) -> Conversion:
    """Pods on a node: the files of their groups as ``plan`` has them, or their messages."""
    if wish.to == "windows":
        return _windows_pods(pods, node, wish, problems)
    hierarchy = node.hierarchy if wish.to in ("oci", "cri") else wish.hierarchy
    driver = wish.driver if wish.to == "systemd" else node.driver
    host = structs.replace(node.host, hierarchy=hierarchy)
    made = plan(pods, structs.replace(node, host=host, driver=driver), problems)
    if wish.to in ("oci", "cri"):
        items = oci_messages(made) if wish.to == "oci" else cri_messages(made)
        parts = [part for item in items for part in _message_parts(item, wish.to)]
    else:
        groups = [group for group in made.cgroups if group.pod is not None]
        parts = [_group_part(group, wish) for group in groups]
    wish = structs.replace(wish, hierarchy=hierarchy, driver=driver, runtime=node.profile.runtime)
    return Conversion("pod", wish, tuple(parts), made.problems)


def _windows_pods(
    pods: Sequence[Pod], node: Node, wish: Wish, problems: Sequence[Problem]
) -> Conversion:
    """What Windows makes of each container, and the report of what it cannot do."""
    isolation = "hyperv" if wish.windows.isolated else node.isolation
    planner = Planner(structs.replace(node, os="windows", isolation=isolation))
    policy, parts = planner.policy, []
    if wish.windows.processors is not None:
        policy = structs.replace(policy, processors=wish.windows.processors)
    for pod in pods:
        on = _machine(policy, hyperv(policy, pod))
        parts.append(Part(name=pod.key, parity=pod_parity(policy, pod, planner.qos(pod))))
        parts += [_windows_container(policy, pod, one, on) for one in pod.containers]
    wish = structs.replace(wish, windows=on) if pods else wish
    wish = structs.replace(wish, runtime=node.profile.runtime)
    return Conversion("pod", wish, tuple(parts), tuple(problems))


def _machine(policy: NodePolicy, isolated: bool) -> Windows:
    """What a release's containers end in: Docker's objects until 1.17, containerd's after."""
    form = policy.choices.windows
    return Windows(
        "hyperv" if isolated else "process",
        policy.processors,
        precedence=form in ("1.10", "design"),
        machine=min(OWN_MACHINE, policy.processors) if form not in ("1.10", "design") else None,
        percent=form == "1.10",
    )


def _windows_container(policy: NodePolicy, pod: Pod, container: Container, on: Windows) -> Part:
    settings = windows_settings(policy, pod, container)
    message = windows_cri(settings)
    part = object_part(Fields(**message), on)
    sent = tuple(
        Row(row.file, row.value, row.writer, row.rule, row.inputs, row.effective)
        for row in settings
    )
    report = container_parity(policy, container, part, on)
    forms: dict[str, object] = {"cri": message, "oci": windows_oci(settings)}
    name = f"{pod.key}/{container.name}"
    return Part((*sent, *part.rows), part.refusal, part.lost, forms, name, report)


def _message_parts(item: Mapping[str, Any], to: str) -> list[Part]:
    """A pod's sandbox and containers as messages, or as parts of their configs."""
    label = f"{item['namespace']}/{item['name']}"
    found = []
    if to == "cri" and item["sandbox"]:
        found.append(Part(message=item["sandbox"]["linux"], name=f"{label} sandbox"))
    for container in item["containers"]:
        kept = {k: v for k, v in container.items() if k not in ("name", "role")}
        if to == "cri" and "linux" in kept:
            kept = kept["linux"]["resources"]
        found.append(Part(message=kept, name=f"{label}/{container['name']}"))
    return found


def _group_part(group: Cgroup, wish: Wish) -> Part:
    assert group.pod is not None
    name = f"{group.pod.namespace}/{group.pod.name}"
    name += f"/{group.container.name}" if group.container is not None else ""
    name += " sandbox" if group.level == "sandbox" else ""
    rows = tuple(
        Row(row.file, row.value, row.writer, row.rule, row.inputs, row.effective)
        for row in group.settings
    )
    if wish.to == "systemd":
        rows = unit_rows(rows, Block(), wish.hierarchy, wish.runtime, wish.systemd)
    return Part(rows, name=name)
