"""Documents and flags to a plan, for the verbs that only read."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, json
from msgspec.structs import replace

from qoslet.core.api.documents import options_of
from qoslet.core.api.schema import nearest, shown
from qoslet.core.node.flags import flags_of
from qoslet.core.plan.plan import plan
from qoslet.core.problem import ProblemCode, plural
from qoslet.errors import BadInput, BadInputs, CannotDo
from qoslet.host.files.manifests import load, load_text
from qoslet.host.files.node import load_node
from qoslet.render.text.streams import note

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from qoslet.app.bundle.inputs import BundleInputs
    from qoslet.core.api.manifest import Loaded
    from qoslet.core.api.pod import Pod, System
    from qoslet.core.managers.container_manager import Assignments
    from qoslet.core.node.node import Node
    from qoslet.core.node.running_kubelet.work import KubeletWork
    from qoslet.core.problem import Problem
    from qoslet.core.resources.cgroup_tree import Plan


class Inputs(Struct, frozen=True):
    """Everything that ``plan`` needs. ``loaded`` is the content of the pods' documents, ``work`` what a
    live kubelet is about to do; both are None if there is none."""

    pods: Sequence[Pod]
    node: Node
    problems: tuple[Problem, ...]
    loaded: Loaded | None = None
    work: KubeletWork | None = None
    kept: Assignments | None = None
    """The CPUs and memory that the kubelet has handed out, as far as it is known."""
    other_releases: Callable[[], Mapping[str, Node]] = dict
    """The node with each release that a live kubelet may be besides that of ``node``, where it did not tell
    its own. Raises BadInputs."""

    def plan(self) -> Plan:
        """The plan, with the problems of reading its input."""
        is_known = self.kept is not None
        return plan(self.pods, self.node, self.problems, self.kept, kept_is_actual=is_known)


def read(
    args: argparse.Namespace,
    paths: Sequence[str],
    *,
    writes: bool = False,
    system: System | None = None,
    given: Loaded | None = None,
    again: bool = False,
) -> Inputs:
    """Read the node, then the pods. ``writes``: for a command that writes a tree of its own; as root it
    reads only files that no other user can change. ``system`` overrides the node's operating system;
    ``given`` are pods that were read before. With ``again`` no note is printed. Raises BadInputs with
    the faults of both node and pods."""
    _check_stdin(args, paths)
    bundle = bundle_of(args)
    if getattr(args, "live", False):
        return read_live(args, again=again)
    if not paths and bundle is None:
        raise _no_pods(args)
    faults: list[BadInput] = []
    node: Node | None = None
    problems: Sequence[Problem] = ()
    try:
        node, problems = _node(args, bundle, writes, system)
    except BadInputs as error:
        faults += error.faults
    options = options_of(args, node.name if node else None)
    recursive = getattr(args, "recursive", False)
    try:
        if given is not None:
            loaded = given
        elif bundle is not None and not paths:
            loaded = bundle.pods(options)
        else:
            loaded = load(paths, options, root_check=writes, recursive=recursive)
        _check_node_name(args, loaded)
    except BadInputs as error:
        raise BadInputs([*faults, *error.faults]) from None
    if node is None:
        raise BadInputs(faults)
    if not again:
        note_origins(node)
    problems = (*problems, *_pod_problems(loaded, args.node))
    found = Inputs(loaded.pods, node, problems, loaded)
    return found if bundle is None else _of_bundle(found, bundle, args)


def _pod_problems(loaded: Loaded, node: Sequence[str]) -> Iterator[Problem]:
    """The problems of reading the pods, without those about Nodes in a file that ``--node`` names, too."""
    files = tuple(f"{shown(file)}: " for file in node)
    for row in loaded.problems:
        if row.code is not ProblemCode.NODE_AMONG_PODS or not row.where.startswith(files):
            yield row


def _node(
    args: argparse.Namespace, bundle: BundleInputs | None, writes: bool, system: System | None
) -> tuple[Node, list[Problem]]:
    """The node of a bundle, or that of documents and flags. Raises BadInputs."""
    flags = flags_of(args)
    if bundle is not None:
        return bundle.node(args.node, flags, system)
    return load_node(
        args.node, flags, root_check=writes, acts=writes, own_tree=writes, system=system
    )


def _of_bundle(inputs: Inputs, bundle: BundleInputs, args: argparse.Namespace) -> Inputs:
    """The inputs with what a bundle tells of its kubelet. Raises BadInput."""
    kept = bundle.assignments(inputs.node)
    others = partial(bundle.other_releases, args.node, flags_of(args))
    return replace(inputs, kept=kept, other_releases=others)


def note_origins(node: Node) -> None:
    """Say what no document gave."""
    if node.probed:
        note(f"taken from this machine: {_grouped(node.probed)}")
    if node.assumed:
        said = [f"{one.field} {one.value}" for one in node.assumed]
        note(f"assumed, as no document says it: {_grouped(said)}")


def _check_stdin(args: argparse.Namespace, paths: Sequence[str]) -> None:
    """Raise BadInput for what reads standard input twice."""
    readers = {
        "-f": "-" in paths,
        "--bundle": getattr(args, "bundle", None) == "-",
        "--node": "-" in args.node,
    }
    reading = [option for option, reads in readers.items() if reads]
    if len(reading) > 1:
        message = "standard input can be read once"
        raise BadInput(message, where=f"{reading[-1]} -", hint="name a file")


def bundle_of(args: argparse.Namespace) -> BundleInputs | None:
    """The bundle that stands for the machine, read once. Raises BadInput."""
    path = getattr(args, "bundle", None)
    if path is None:
        return None
    from qoslet.app.bundle.inputs import BundleInputs

    if not isinstance(path, BundleInputs):
        args.bundle = BundleInputs(path)
    found: BundleInputs = args.bundle
    return found


def _no_pods(args: argparse.Namespace) -> BadInput:
    """The fault of a command line that names no pods."""
    hint = "give -f pods.yaml, or - for standard input"
    if getattr(args, "runtime", None) == "process":
        hint = "give -f the manifests that qoslet run was given"
    elif hasattr(args, "live"):
        hint += "; --live takes those of the kubelet or agent that runs here"
    return BadInput("no pods given", where="-f", hint=hint)


def read_live(args: argparse.Namespace, *, again: bool = False) -> Inputs:
    """The node and the pods of the kubelet or agent that runs here; documents of ``--node`` and ``-f``
    override what it says. ``args.found`` is its node if that was looked up before. With ``again`` no
    note is printed. Raises BadInputs, BadInput, CannotDo."""
    from qoslet.app.node.assigned import kubelet_assignments
    from qoslet.app.node.found_node import PODS, find_node, kubelet_options
    from qoslet.app.node.untold_release import other_releases
    from qoslet.app.waiting import kubelet_waiting

    if getattr(args, "bundle", None) is not None:
        hint = "leave one of them out"
        raise BadInput("--bundle describes another machine", where="--live", hint=hint)
    if (root := getattr(args, "agent", None)) is not None:
        return _of_agent(args, root, again)
    with nullcontext() if again else kubelet_waiting():
        found = getattr(args, "found", None) or find_node(kubelet_options(args))
    for line in () if again else found.lines():
        note(line)
    node, problems = load_node(args.node, flags_of(args), texts=found.texts())
    options = options_of(args, node.name)
    if paths := [*args.filename, *getattr(args, "paths", ())]:
        loaded = load(paths, options, recursive=getattr(args, "recursive", False))
    elif found.pods is None:
        lacking = found.note(PODS)
        is_early = found.work.is_new and not found.is_refused
        soon = "the kubelet has just started: ask again in some seconds" if is_early else ""
        hint = "; ".join(filter(None, (soon, lacking.remedy, lacking.cost)))
        raise CannotDo(f"the kubelet's pods: {lacking.value}", hint=hint)
    else:
        loaded = load_text(found.pods[1], options, name=found.pods[0])
    _check_node_name(args, loaded)
    told = (*problems, *loaded.problems)
    kept = kubelet_assignments(found, node)
    others = partial(other_releases, found, args.node, flags_of(args))
    return Inputs(loaded.pods, node, told, loaded, found.work, kept, others)


def _of_agent(args: argparse.Namespace, root: str, again: bool) -> Inputs:
    """The node of the agent at ``root``, with its pods that have not ended, or with those of ``-f`` in their
    place. Raises BadInputs, CannotDo."""
    from qoslet.app.inspect import pod_states
    from qoslet.app.node.agent_pods import ENDED, agent_pods, ending_pods
    from qoslet.app.node.running_agent import agent_node
    from qoslet.core.node.running_kubelet.work import KubeletWork

    node, problems = load_node(args.node, flags_of(args), own_tree=True, texts=agent_node(root))
    options = options_of(args, node.name)
    if args.filename:
        loaded = load(args.filename, options, recursive=getattr(args, "recursive", False))
        return Inputs(loaded.pods, node, (*problems, *loaded.problems), loaded)
    options = replace(options, keep_raw=True)
    states = pod_states(root)
    found, why = agent_pods(states, options)
    if why:
        raise CannotDo(why, where=f"the agent of {root}", hint="give them with -f")
    if not again:
        note(f"agent of {root}: {plural(len(found), 'pod')}")
    pods = [pod for pod, document in found if document["status"]["phase"] not in ENDED]
    ending = ending_pods(states)
    work = KubeletWork(running=ending) if ending else None
    return Inputs(pods, node, tuple(problems), work=work)


def scheduled(inputs: Inputs) -> Inputs:
    """The pods that the node has: without those that wait for a scheduler."""
    pods = [pod for pod in inputs.pods if pod.node_name or pod.phase != "Pending"]
    return inputs if len(pods) == len(inputs.pods) else replace(inputs, pods=pods)


def _check_node_name(args: argparse.Namespace, loaded: Loaded) -> None:
    """Raise BadInputs for a node that no document and no pod knows by that name."""
    name: str | None = args.node_name
    if name is None or loaded.pods or not loaded.nodes or name in loaded.nodes:
        return
    known = tuple(sorted(loaded.nodes))
    hint = nearest(name, known) or f"nodes: {', '.join(known[:5])}"
    message = f"no pod of the input is on node {shown(name)}"
    raise BadInputs([BadInput(message, where="--node-name", hint=hint)])


def read_values(
    args: argparse.Namespace, given: Sequence[Any], system: System | None = None
) -> Inputs:
    """``read`` for documents that are decoded already. Raises BadInputs."""
    node, problems = load_node(args.node, flags_of(args), system=system)
    items = json.encode({"apiVersion": "v1", "kind": "List", "items": list(given)})
    loaded = load_text(items, options_of(args, node.name), name="stdin")
    _check_node_name(args, loaded)
    return Inputs(loaded.pods, node, (*problems, *loaded.problems))


def _grouped(fields: Sequence[str]) -> str:
    """``capacity (cpu, memory), swap`` for the dotted names."""
    groups: dict[str, list[str]] = {}
    for field in fields:
        top, _, rest = field.partition(".")
        groups.setdefault(top, []).extend([rest] if rest else [])
    return ", ".join(f"{top} ({', '.join(rest)})" if rest else top for top, rest in groups.items())
