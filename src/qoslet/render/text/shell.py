"""A plan as the commands that would make it by hand: ``plan -o shell``.

Every word is quoted, so the lines can be pasted whatever the names are. Groups of containers
that only their runtime can make stand as comments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from qoslet.core.cgroup.interface_files import controller, property_of
from qoslet.core.cgroup.names import DEFAULT_POINT, parents
from qoslet.core.rules.cpu import systemd_quota_per_second
from qoslet.render.terminal import printable
from qoslet.render.text.columns import label

if TYPE_CHECKING:
    from qoslet.core.resources.cgroup_tree import Cgroup, Plan, Setting


_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_")


def quoted(word: str) -> str:
    """``word`` as one word of a POSIX shell, control characters made visible."""
    text = printable(word)
    if text and _SAFE.issuperset(text):
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


def lines(plan: Plan) -> list[str]:
    """The script, line by line."""
    node = plan.node
    if node.os == "windows":
        return ["# Windows containers have no cgroups: see -o cri"]
    found = [
        "#!/bin/sh",
        f"# cgroup {node.hierarchy}, {node.driver} driver; run as root",
        "set -eu",
    ]
    for cgroup in plan.cgroups:
        if plan.is_windows(cgroup):
            found.append(
                printable(f"# a Windows container, no cgroup: {label(cgroup, None, True)}")
            )
        elif cgroup.path is None:
            found += _comment(cgroup)
    real = [cgroup for cgroup in plan.cgroups if cgroup.path is not None]
    if node.driver == "systemd":
        found += _systemd(plan, real)
    elif node.hierarchy == "v2":
        found += _v2(real)
    else:
        found += _v1(real, node.host.mounts)
    return found


def _comment(cgroup: Cgroup) -> list[str]:
    values = " ".join(f"{s.file}={quoted(s.value)}" for s in cgroup.settings)
    return [printable(f"# made by the runtime: {label(cgroup, None, True)}: {values}")]


def _write(directory: str, setting: Setting) -> str:
    return _printf(setting.value, f"{directory}/{setting.file}")


def _printf(value: str, path: str) -> str:
    return f"printf '%s' {quoted(value)} > {quoted(path)}"


def _controllers(groups: list[Cgroup]) -> str:
    names = sorted({controller(s.file) for cgroup in groups for s in cgroup.settings})
    return " ".join(f"+{name}" for name in names)


def _enabled(groups: list[Cgroup], names: str) -> Iterator[str]:
    """Each group that has groups below it gives them its controllers, from above."""
    inner = dict.fromkeys(
        above for cgroup in groups for above in ("", *reversed([*parents(cgroup.path or "")]))
    )
    inner.update(dict.fromkeys(c.path or "" for c in groups if c.level == "pod"))
    for path in inner:
        yield _printf(names, f"{DEFAULT_POINT}{path.rstrip('/')}/cgroup.subtree_control")


def _v2(groups: list[Cgroup]) -> list[str]:
    names = _controllers(groups)
    found = [f"mkdir -p {quoted(DEFAULT_POINT + (cgroup.path or ''))}" for cgroup in groups]
    if names:
        # a group must exist before its parent's controllers reach it, and its files after
        found += _enabled(groups, names)
    for cgroup in groups:
        found += [_write(DEFAULT_POINT + (cgroup.path or ""), s) for s in cgroup.settings]
    return found


def _v1(groups: list[Cgroup], mounts: Mapping[str, str]) -> list[str]:
    found: list[str] = []
    for cgroup in groups:
        places = {
            s.file: f"{mounts.get(controller(s.file), f'{DEFAULT_POINT}/{controller(s.file)}')}"
            for s in cgroup.settings
        }
        mounted = dict.fromkeys(places.values())
        found += [f"mkdir -p {quoted(mount + (cgroup.path or ''))}" for mount in mounted]
        found += [_write(places[s.file] + (cgroup.path or ""), s) for s in cgroup.settings]
    return found


def _systemd(plan: Plan, groups: list[Cgroup]) -> list[str]:
    node = plan.node
    found: list[str] = []
    rest: list[tuple[Cgroup, Setting]] = []
    for cgroup in groups:
        unit = cgroup.unit or "-.slice"
        words = []
        for setting in cgroup.settings:
            name = property_of(setting.file, node.hierarchy, node.host.systemd)
            if name is None:
                rest.append((cgroup, setting))
            else:
                words += _property(name, setting)
        if unit.endswith(".slice"):
            found.append(f"systemctl start {quoted(unit)}")
        if words:
            found.append(
                f"systemctl set-property --runtime {quoted(unit)} {' '.join(map(quoted, words))}"
            )
    return found + _files(plan, rest)


def _files(plan: Plan, rest: list[tuple[Cgroup, Setting]]) -> list[str]:
    """What systemd has no property for goes to the file."""
    groups = list({id(cgroup): cgroup for cgroup, _ in rest}.values())
    names = {controller(setting.file) for _, setting in rest}
    found: list[str] = []
    if plan.node.hierarchy == "v2" and names:
        found += _enabled(groups, " ".join(f"+{name}" for name in sorted(names)))
    for cgroup, setting in rest:
        mount = DEFAULT_POINT
        if plan.node.hierarchy == "v1":
            name = controller(setting.file)
            mount = plan.node.host.mounts.get(name, f"{DEFAULT_POINT}/{name}")
        found.append(_write(mount + (cgroup.path or ""), setting))
    return found


def _property(name: str, setting: Setting) -> list[str]:
    """A setting as ``systemctl set-property`` words."""
    value = setting.value
    if name == "CPUQuotaPeriodUSec":
        return [] if value == "100000" else [f"CPUQuotaPeriodSec={value}us"]
    if name != "CPUQuotaPerSecUSec":
        return [f"{name}={'infinity' if value in ('max', '-1') else value}"]
    quota, _, period = value.partition(" ")
    period = period or str(setting.inputs[2])
    words = [] if period == "100000" else [f"CPUQuotaPeriodSec={period}us"]
    if quota in ("max", "-1"):
        return [*words, "CPUQuota="]
    percent = systemd_quota_per_second(int(quota), int(period)) // 10_000
    if setting.file == "cpu.cfs_quota_us":
        words = []
    return [*words, f"CPUQuota={percent}%"]
