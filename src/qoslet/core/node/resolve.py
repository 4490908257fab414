"""Node documents, flags and a probe -> ``Node``: every choice made, with where it came from.

Per field a flag wins over the KubeletConfiguration, that over qoslet's own Node, that over the
API's Node, and a look at this machine comes last. ``origins`` is keyed by the field's name in
its document: ``kubeReserved``, ``capacity.memory``, ``host.hierarchy``, ``kubernetes``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.pod import Quantities, System
from qoslet.core.cgroup.names import DriverName
from qoslet.core.node import fields as read
from qoslet.core.node import host_facts
from qoslet.core.node.documents.kubelet_config import KubeletRead, kubelet_of, kubelet_read
from qoslet.core.node.documents.sources import Fields, Sources
from qoslet.core.node.faults import Faults, shown
from qoslet.core.node.flags import FLAG_ROWS, NO_FLAGS, FlagRow, Flags, overrides
from qoslet.core.node.lookup import Look, Lookup, Probed
from qoslet.core.node.node import HostFacts, Node
from qoslet.core.node.validation import kubelet as validation
from qoslet.core.problem import Problem
from qoslet.core.versions import kubernetes
from qoslet.core.versions.kubernetes import Profile
from qoslet.errors import BadInput

__all__ = ["FLAG_ROWS", "NO_FLAGS", "FlagRow", "Flags", "Probed", "as_written", "node_from"]


class _Choice(Struct):
    """A version text and where it came from; ``flag`` tells that a flag said it, ``named`` that
    anybody did."""

    text: str
    where: str
    flag: bool = False
    named: bool = True


def _chosen(machine: Lookup, flag: str | None, field: str, default: str) -> _Choice:
    """The flag's text, else a document's, else the default."""
    if flag is not None:
        place = f"--{field}"
        machine.origins[field] = place
        said = read.text(machine.faults, place, flag)
        return _Choice(default if said is None else said, place, True)
    text = machine.given(field, read.version)
    if text is None:
        return _Choice(default, f"{field} (default)", named=False)
    return _Choice(text, machine.origins[field])


def _release(faults: Faults, problems: list[Problem], chosen: _Choice) -> str:
    """The release of a profile; a document may name one that is newer than all."""
    numbers = chosen.text.removeprefix("v").split(".")
    minor = numbers[1].rstrip("+") if len(numbers) > 1 and numbers[0] == "1" else ""
    newest = f"1.{kubernetes.NEWEST}"
    number = minor.isascii() and minor.isdigit() and len(minor) < 6
    if number and int(minor) > kubernetes.NEWEST and not chosen.flag:
        message = f"{chosen.text} is newer than {newest}, the newest known release"
        hint = f"qoslet uses the rules of {newest}"
        problems.append(Problem("warning", chosen.where, message, hint))
        return newest
    try:
        return kubernetes.minor_of(chosen.text)
    except ValueError as error:
        hint = f"give 1.{kubernetes.OLDEST} to {newest}, or design"
        faults.add(chosen.where, _bounded_message(chosen.text, error), hint)
        return kubernetes.DEFAULT


def _bounded_message(text: str, error: ValueError) -> str:
    """The message of a resolver, bounded."""
    return str(error) if len(text) <= 60 else f"{shown(text)} is unknown"


def _profile(machine: Lookup, flags: Flags, problems: list[Problem]) -> Profile:
    """The profile of release, runtime and variant; faults where a name is not known."""
    faults = machine.faults
    chosen = _chosen(machine, flags.kubernetes, "kubernetes", kubernetes.DEFAULT)
    release = _release(faults, problems, chosen)
    default = kubernetes.default_runtime(release)
    runtime = _chosen(machine, flags.runtime, "runtime", default)
    # The API writes NAME://VERSION.
    name = runtime.text.replace("://", "-", 1)
    variant = _memory_qos_variant(machine, flags)
    try:
        return kubernetes.resolve(release, name, variant, named=chosen.named)
    except ValueError as error:
        if runtime.flag or "runtime" in machine.own:
            hint = "such as runc-1.4.0, crun-1.23 or containerd-2.2.0+runc-1.4.0"
            faults.add(runtime.where, _bounded_message(name, error), hint)
        else:
            hint = "name the runtime with --runtime"
            message = f"{_bounded_message(name, error)}; qoslet assumes {default}"
            problems.append(Problem("warning", runtime.where, message, hint))
        return kubernetes.resolve(release, default, variant, named=chosen.named)


def _memory_qos_variant(machine: Lookup, flags: Flags) -> str | None:
    """The variant of Memory QoS that is asked for by name."""
    if flags.memory_qos is None:
        return machine.given("memoryQos", _memory_qos)
    machine.origins["memoryQos"] = "--memory-qos"
    return _memory_qos(machine.faults, "--memory-qos", flags.memory_qos)


def _memory_qos(faults: Faults, where: str, value: Any) -> str | None:
    return read.choice(faults, where, value, kubernetes.MEMORY_QOS_VARIANTS)


def _driver(
    machine: Lookup,
    os: str,
    facts: HostFacts,
    kubelet: Fields | None,
    flags: Mapping[str, tuple[Any, str]],
    *,
    is_partial: bool,
) -> DriverName:
    """Flag, cgroupDriver, cgroupfs with a whole KubeletConfiguration, systemd if it is PID 1,
    or what is assumed of a described machine."""
    value, where = flags.get("cgroupDriver") or (kubelet or {}).get("cgroupDriver") or ("", "")
    if value != "":
        machine.origins["driver"] = where
        found = read.choice(machine.faults, where, value, ("cgroupfs", "systemd"))
        return "systemd" if found == "systemd" else "cgroupfs"
    if kubelet is None and os == "linux" and host_facts.runs_systemd(machine):
        machine.origins["driver"] = machine.origins.get("host.systemd", "probed")
        if machine.origins["driver"] == "probed":
            machine.probed.add("driver")
        return "systemd"
    if (kubelet is None or is_partial) and os == "linux" and machine.described:
        from qoslet.core.node.described import assumptions

        chosen, why = assumptions.driver(machine.clues(), facts.hierarchy)
        return machine.assume("driver", chosen, chosen, why)
    return "cgroupfs"


def as_written(node: Node) -> Node:
    """The node as a verb takes it that writes a tree of its own: with the systemd driver only
    where a flag or a document names it, since what PID 1 is says nothing of who manages pods."""
    origin = node.origins.get("driver")
    if node.driver == "systemd" and origin in (
        "probed",
        "assumed",
        node.origins.get("host.systemd"),
    ):
        probed = tuple(field for field in node.probed if field != "driver")
        assumed = tuple(one for one in node.assumed if one.field != "driver")
        return replace(node, driver="cgroupfs", probed=probed, assumed=assumed)
    return node


def _os(faults: Faults, where: str, value: Any) -> System | None:
    found = read.choice(faults, where, value, ("linux", "windows"))
    return None if found is None else "windows" if found == "windows" else "linux"


def _name(faults: Faults, where: str, value: Any) -> str | None:
    """A node's name: a DNS subdomain, as the API server demands."""
    found = read.text(faults, where, value)
    if found is None:
        return None
    fault = name_fault(where, found)
    if fault is not None:
        faults.add(fault.where, fault.message, fault.hint)
        return None
    return found


def name_fault(where: str, name: str) -> BadInput | None:
    """What is wrong with the name of a node that stands at ``where``."""
    plain = name.replace("-", "").replace(".", "")
    ends = any(not part or part[0] == "-" or part[-1] == "-" for part in name.split("."))
    right = plain.isascii() and plain.isalnum() and plain == plain.lower()
    if right and not ends and len(name) <= 253:
        return None
    hint = "use lowercase letters, digits, - and ."
    return BadInput(f"{shown(name)} is not a node name", where=where, hint=hint)


def _node_name(machine: Lookup, flags: Flags) -> str | None:
    """The flag's name, else that of a document."""
    if flags.node_name is None:
        return machine.given("metadata.name", _name)
    machine.origins["metadata.name"] = "--node-name"
    return _name(machine.faults, "--node-name", flags.node_name)


def _isolation(faults: Faults, flags: Flags) -> Literal["process", "hyperv"] | None:
    if flags.isolation is None:
        return None
    found = read.choice(faults, "--isolation", flags.isolation, ("process", "hyperv"))
    return None if found is None else "hyperv" if found == "hyperv" else "process"


def _reported_allocatable(machine: Lookup) -> Quantities:
    """status.allocatable of the API's Node."""
    prefix = "allocatable."
    given = {
        field.removeprefix(prefix): read.amount(machine.faults, where, value)
        for field, (value, where) in machine.api.items()
        if field.startswith(prefix)
    }
    return {name: amount for name, amount in given.items() if amount is not None}


def _look(faults: Faults, flags: Flags, acts: bool) -> Look:
    """Whether this machine is looked at; a verb that acts on it always does."""
    given = "auto" if flags.probe is None else flags.probe
    found = read.choice(faults, "--probe", given, ("auto", "always", "never"))
    if acts:
        if found == "never":
            hint = "leave it out, or use --simulate"
            faults.add("--probe", "is never, but this command acts on this machine", hint)
        return "always"
    return "always" if found == "always" else "never" if found == "never" else "auto"


def _ignored(
    found: KubeletRead, document: Fields | None, flags: Fields, rules: Profile, *, acts: bool
) -> Iterator[Problem]:
    """What the release does not know of the kubelet's fields. A command that acts does so below its
    own root: a kubelet's is the kubelet's."""
    if not document and not flags:
        return
    if acts and document:
        from qoslet.core.node.validation.unasked_refusals import ignored_root

        yield from ignored_root(document.get("cgroupRoot"), flags.get("cgroupRoot"))
    from qoslet.core.node.documents.kubelet_fields import ignored

    given = {**(document or {}), **flags}
    yield from ignored(found, {field: where for field, (_, where) in given.items()}, rules)


def _pins(found: KubeletRead) -> bool:
    """Whether CPUs or memory are handed out."""
    policies = (found.values.get(f"{name}_manager_policy", "") for name in ("cpu", "memory"))
    return "static" in (str(policy).lower() for policy in policies)


def _system(machine: Lookup, forced: System | None) -> tuple[System, bool]:
    """The operating system of the node, and whether the documents describe one of another."""
    named: System | None = machine.given("os", _os)
    os: System = forced or named or "linux"
    return os, os != (named or "linux")


def _sources(faults: Faults, documents: Sequence[tuple[str, Any]], flags: Flags) -> Sources:
    """The fields of the documents by their source; ``--hierarchy`` counts as a field of qoslet's Node."""
    sources = Sources()
    if documents:
        from qoslet.core.node.documents.reader import read_sources

        sources = read_sources(faults, documents, flags.node_name)
    if flags.hierarchy is not None:
        sources.own = {**(sources.own or {}), "host.hierarchy": (flags.hierarchy, "--hierarchy")}
    return sources


def _kubelet_read(faults: Faults, sources: Sources, given: Fields) -> KubeletRead:
    """The kubelet's part of the documents and flags."""
    return kubelet_read(
        faults,
        sources.kubelet,
        given,
        sources.gates,
        sources.entries,
        over_defaults=sources.over_defaults,
    )


def node_from(
    documents: Sequence[tuple[str, Any]],
    flags: Flags,
    probe: Callable[[], Probed],
    *,
    acts: bool = False,
    own_tree: bool = False,
    system: System | None = None,
) -> tuple[Node, list[Problem]]:
    """The node that labelled, decoded documents and flags describe, and what to know about it. ``probe`` is
    called at most once, and only if something is missing; ``acts``: for a command that acts on this machine,
    which whatever is missing is then taken from; ``own_tree``: for cgroups that are to be qoslet's own;
    ``system`` overrides the operating system of the documents. Raises BadInputs with every fault."""
    faults = Faults()
    sources = _sources(faults, documents, flags)
    given = overrides(faults, flags)
    look, configured = _look(faults, flags, acts), {**(sources.kubelet or {}), **given}
    machine = Lookup(faults, sources, probe, look, configured)
    problems, found = list(sources.problems), _kubelet_read(faults, sources, given)
    rules = _profile(machine, flags, problems)
    problems += _ignored(found, sources.kubelet, given, rules, acts=acts)
    machine.asked_release = rules.kubernetes if flags.kubernetes is not None else None
    os, foreign = _system(machine, system)
    resources = host_facts.capacity(machine, os)
    swap = host_facts.swap_of(machine, os)
    facts = host_facts.host(machine, os, resources, _pins(found))
    driver = _driver(machine, os, facts, sources.kubelet, given, is_partial=sources.is_partial)
    node = Node(
        name=_node_name(machine, flags),
        capacity=resources,
        swap=swap,
        host=facts,
        kubelet=kubelet_of(found, rules, os, facts.hierarchy),
        profile=rules,
        driver=driver,
        os=os,
        isolation=_isolation(faults, flags),
        kubelet_given=sources.kubelet is not None,
        is_partial=sources.is_partial,
        probed=tuple(sorted(machine.probed)),
        assumed=tuple(sorted(machine.assumed, key=lambda one: one.field)),
        origins={**machine.origins, **found.origins},
        status_allocatable=_reported_allocatable(machine),
    )
    node = as_written(node) if own_tree else node
    validation.faults_of(faults, node, found)
    faults.check()
    runs = host_facts.runs_systemd(machine) if node.driver == "systemd" else None
    problems.extend(validation.problems_of(node, found, runs, foreign=foreign))
    return node, problems
