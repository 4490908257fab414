"""Selects cgroups and files by exact names; errors list candidates."""

from __future__ import annotations

from collections.abc import Sequence

from qoslet.core.api.pod import Pod
from qoslet.core.cgroup.interface_files import KNOBS
from qoslet.core.cgroup.mount_path import cgroup_of
from qoslet.core.explain.absent_windows import WINDOWS_FIELDS
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from qoslet.errors import BadInput

OOM = "oom_score_adj"
"""Not a cgroup file, but explained like one."""


def select(plan: Plan, target: str, namespace: str | None = None) -> list[Cgroup]:
    """The cgroups of ``[NAMESPACE/]POD[/CONTAINER]``, of kubectl's ``TYPE/NAME``, or the one of that
    name, of which the end is enough above pods (``burstable``); all cgroups of a pod. Raises BadInput
    for an unknown or ambiguous target, with candidates."""
    if target.startswith("/"):
        return _by_name(plan, target)
    exact: dict[str, list[Cgroup]] = {}
    for cgroup in plan.cgroups:
        pod = cgroup.pod
        if pod is None or namespace not in (None, pod.namespace):
            continue
        container = cgroup.container.name if cgroup.container is not None else None
        for key, names in _spellings(pod, container).items():
            if target in names:
                exact.setdefault(key, []).append(cgroup)
    if not exact and "/" in target:
        exact = _by_type(plan, target, namespace)
    if not exact and target:
        above = [c for c in plan.cgroups if c.pod is None and _ends(c, target)]
        exact = {cgroup.name: [cgroup] for cgroup in above}
    if len(exact) == 1:
        return next(iter(exact.values()))
    if exact:
        hint = "give -n NAMESPACE" if len({key.split("/")[0] for key in exact}) > 1 else ""
        candidates = ", ".join(_some(sorted(exact)))
        raise BadInput(
            f"{target!r} could be any of {candidates}",
            where="POD",
            hint=hint or "use the full name",
        )
    place = f" in namespace {namespace}" if namespace else ""
    message = f"no pod or container named {target!r}{place}"
    raise BadInput(message, where="POD", hint=_near(plan, target, namespace))


def _ends(cgroup: Cgroup, target: str) -> bool:
    """Whether the target is the end of a cgroup's name or path."""
    return any(one.endswith(f"/{target}") for one in (cgroup.name, cgroup.path or ""))


def _by_type(plan: Plan, text: str, namespace: str | None) -> dict[str, list[Cgroup]]:
    """The cgroups of ``deployment/web[/CONTAINER]`` by the full names of their pods. Raises BadInput
    for a kind that kubectl knows without a pod of that name."""
    from qoslet.core.api.input.kubectl_names import is_kubectls, target_of

    target = target_of(text)
    found: dict[str, list[Cgroup]] = {}
    if target is None:
        return found
    for cgroup in plan.cgroups:
        pod = cgroup.pod
        if pod is None or namespace not in (None, pod.namespace) or not target.names(pod):
            continue
        container = cgroup.container.name if cgroup.container is not None else ""
        if target.container in ("", container):
            key = f"{pod.key}/{container}" if target.container else pod.key
            found.setdefault(key, []).append(cgroup)
    if not found and is_kubectls(target):
        message = f"no pod of {target.kind} {target.name!r}" if target.kind != "pod" else ""
        name = "/".join(filter(None, (target.name, target.container)))
        message = message or f"no pod or container named {name!r}"
        raise BadInput(message, where="POD", hint=_near(plan, name, namespace))
    return found


def _spellings(pod: Pod, container: str | None) -> dict[str, tuple[str, ...]]:
    """The full names of a cgroup's pod and container, each with the names that select it."""
    names: dict[str, tuple[str, ...]] = {pod.key: (pod.name, pod.key)}
    if container is not None:
        names[f"{pod.key}/{container}"] = (f"{pod.name}/{container}", f"{pod.key}/{container}")
    return names


def _by_name(plan: Plan, target: str) -> list[Cgroup]:
    name = cgroup_of(target, plan.node.hierarchy)[0].rstrip("/") or "/"
    cgroups = [c for c in plan.cgroups if name in (c.name, c.path)]
    if cgroups:
        return cgroups
    hint = _sandbox_hint(plan, name) or _hint(name, [c.name for c in plan.cgroups])
    raise BadInput(f"the plan has no cgroup {target!r}", where="CGROUP", hint=hint)


def _sandbox_hint(plan: Plan, path: str) -> str:
    """What to explain in place of a container's cgroup that no status names, which a pod's sandbox is."""
    above = path.rpartition("/")[0]
    uid = next(
        (c.pod.uid for c in plan.cgroups if c.level == "pod" and c.pod and c.path == above), ""
    )
    for cgroup in plan.cgroups:
        if cgroup.level == "sandbox" and cgroup.pod is not None and cgroup.pod.uid == uid:
            return f"no status names it; the sandbox of {cgroup.pod.key} is {cgroup.name}"
    return ""


def _near(plan: Plan, target: str, namespace: str | None) -> str:
    containers = [
        f"{c.pod.name}/{target}"
        for c in plan.cgroups
        if c.pod is not None
        and namespace in (None, c.pod.namespace)
        and c.container is not None
        and c.container.name == target
    ]
    if containers:
        return f"did you mean {' or '.join(_some(containers, 3))}?"
    for cgroup in plan.cgroups:
        if cgroup.name.endswith(f"/{target}"):
            return f"did you mean the cgroup {cgroup.name}?"
    names: dict[str, None] = {}
    spaces = {cgroup.pod.namespace for cgroup in plan.cgroups if cgroup.pod is not None}
    if namespace and namespace not in spaces:
        return f"namespaces: {', '.join(_some(sorted(spaces)))}" if spaces else "the plan is empty"
    for cgroup in plan.cgroups:
        if cgroup.pod is not None and namespace in (None, cgroup.pod.namespace):
            names[cgroup.pod.name] = None
            names[cgroup.pod.key] = None
            if cgroup.container is not None:
                names[f"{cgroup.pod.name}/{cgroup.container.name}"] = None
    return _hint(target, list(names))


def _hint(target: str, names: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(target, names, 3, 0.6)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"there are {', '.join(_some(names))}" if names else "the plan is empty"


def _some(names: Sequence[str], most: int = 8) -> list[str]:
    return [*names[:most], f"… ({len(names)} in all)"] if len(names) > most else list(names)


def known_file(text: str, cgroups: Sequence[Cgroup]) -> str:
    """``text`` if it names a file; BadInput with close matches otherwise."""
    files = {file for knob in KNOBS for file in (knob.v1, knob.v2) if file}
    files |= {s.file for cgroup in cgroups for s in cgroup.settings} | {OOM}
    if text in files or text.startswith("hugetlb.") or text in WINDOWS_FIELDS:
        return text
    from difflib import get_close_matches

    near = get_close_matches(text, sorted(files), 3, 0.6)
    example = "such as memory.high or cpu.weight"
    if any(setting.rule.startswith("windows.") for one in cgroups for setting in one.settings):
        example = f"a Windows container has {', '.join(WINDOWS_FIELDS)}"
    hint = f"did you mean {' or '.join(near)}?" if near else example
    for one in cgroups:
        if one.pod is not None and one.container is not None and one.container.name == text:
            hint = f"did you mean the container {one.pod.name}/{text}?"
    raise BadInput(f"{text!r} is not a known cgroup file", where="FILE", hint=hint)
