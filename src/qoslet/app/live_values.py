"""What stands in this machine's files, for explanations of the values that should."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from qoslet.app.audit.machine import look, machine_source
from qoslet.app.inputs import read
from qoslet.app.own_tree import choose_tree, keeps_pods, own_containers
from qoslet.core.explain.live_value import LiveValue
from qoslet.errors import CannotDo
from qoslet.render.text.streams import note

if TYPE_CHECKING:
    import argparse

    from qoslet.app.bundle.inputs import BundleInputs
    from qoslet.app.inputs import Inputs
    from qoslet.core.audit.live import LiveSource
    from qoslet.core.explain.explain import Explanation


def live_inputs(args: argparse.Namespace) -> Inputs:
    """The pods and the node of ``--live``: those of the kubelet or agent that runs here. Pods that are given
    are read as documents if none runs, or if qoslet keeps pods at the root. Raises QosletError."""
    choose_tree(args)
    if args.filename and args.cgroup_root and keeps_pods(args.cgroup_root):
        args.live = False
        args.runtime = args.runtime or "process"
        return read(args, args.filename)
    try:
        return read(args, args.filename)
    except CannotDo as error:
        if not args.filename:
            raise
        note(f"{error.message}: the node is described by documents")
        args.live = False
        return read(args, args.filename)


def live_values(
    explanation: Explanation, bundle: BundleInputs | None = None
) -> Mapping[tuple[str, str], LiveValue]:
    """What each explained file holds on this machine, or held when the bundle was made, by the cgroup's
    name and the file. Raises CannotDo, BadInput."""
    from qoslet.core.audit.verdicts.groups import placed

    source: LiveSource
    mounts: Mapping[str, str] = {}
    if bundle is None:
        plan = own_containers(explanation.plan)
        source, mounts = machine_source(plan)
    else:
        source = tree = bundle.tree(explanation.plan.node.hierarchy)
        plan = tree.with_containers(explanation.plan, bundle.running())
    wanted = {
        group.cgroup.name: tuple(value.file for value in group.values)
        for group in explanation.groups
    }
    live, report = look(plan, source, mounts, wanted)
    paths = placed(plan, live)
    faults = {(one.name, one.file): one for one in report.findings if one.file is not None}
    found: dict[tuple[str, str], LiveValue] = {}
    for name, files in wanted.items():
        group = live.cgroups.get(paths.get(name, ""))
        for file in files:
            text, error = None, "the cgroup does not exist"
            if name not in paths:
                error = "the path of the cgroup is not known"
            elif group is not None:
                text, error = group.values.get(file), group.unread.get(file, "")
                if file == "oom_score_adj" and group.oom_score_adj:
                    text = str(group.oom_score_adj[0])
            fault = faults.get((name, file))
            found[name, file] = LiveValue(
                text,
                error,
                None if fault is None else fault.verdict,
                None if fault is None else fault.property_text,
            )
    return found
