"""Whose cgroup a finding is about, as people name it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.core.plan.pod_planner import SANDBOX_LEAF

if TYPE_CHECKING:
    from qoslet.core.audit.finding import Finding


def pod_label(one: Finding) -> str:
    """The pod with the container, such as ``shop/web/app``; empty where it is about none."""
    if one.pod is None:
        return ""
    name = "/".join(one.pod).removeprefix("default/")
    if one.container is not None:
        return f"{name}/{one.container}"
    is_sandbox = one.name.endswith(f"/{SANDBOX_LEAF}")
    return f"{name} (sandbox)" if is_sandbox else name


def place_label(one: Finding) -> str:
    """The file or cgroup, with its pod where it has one."""
    place = f"{one.path}/{one.file}" if one.file else one.path
    pod = pod_label(one)
    return f"{place} of {pod}" if pod else place
