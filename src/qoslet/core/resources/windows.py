"""Windows containers: the WindowsContainerResources of the CRI, by release.

Windows has no cgroups: the values are fields of a container's job object. Source: kubelet
kuberuntime_container_windows.go; design: CRI Windows container configuration.
"""

from __future__ import annotations

from typing import Any

from qoslet.core.api.pod import Container, Pod
from qoslet.core.quantity import ZERO
from qoslet.core.resources.cgroup_tree import Setting
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.resources.windows_isolation import hyperv
from qoslet.core.rules import windows


def _row(file: str, value: int, rule: str, *inputs: object) -> Setting:
    return Setting(file, str(value), rule, inputs, "runtime")


def _processors(policy: NodePolicy) -> int:
    """The processors that the release counts: one group's before 1.27, then all."""
    if policy.choices.windows in ("1.10", "1.18"):
        return windows.one_group(policy.processors)
    return policy.processors


def _first_form(policy: NodePolicy, milli: int, isolated: bool) -> list[Setting]:
    """1.10-1.17: shares whether or not there is a limit; a cap, and a count under Hyper-V."""
    processors, least = _processors(policy), windows.least_shares(isolated)
    shares = windows.shares_between(milli, processors, isolated)
    inputs = (milli, processors, least, shares)
    settings = [_row("cpu_shares", shares, "windows.cpu_shares.least", *inputs)]
    if not milli:
        return settings
    if isolated:
        count = windows.cpu_count_hyperv(milli)
        maximum = windows.cpu_maximum_hyperv(milli, count)
        settings.append(_row("cpu_count", count, "windows.cpu_count", milli, count))
        cap = _row("cpu_maximum", maximum, "windows.cpu_maximum.hyperv", milli, count, maximum)
        return [*settings, cap]
    return [*settings, _cap(milli, processors)]


def _cap(milli: int, processors: int) -> Setting:
    maximum = windows.cpu_maximum(milli, processors)
    return _row("cpu_maximum", maximum, "windows.cpu_maximum", milli, processors, maximum)


def _design(policy: NodePolicy, milli: int, request: int, isolated: bool) -> list[Setting]:
    """The document's table, multiplied before it divides."""
    processors, settings = policy.processors, []
    count = windows.cpu_count_design(milli)
    shares = windows.cpu_shares_design(milli or request, processors)
    divisor = count if isolated else processors
    maximum = windows.MAXIMUM * milli // (divisor * 1000) if milli and divisor else 0
    maximum = min(maximum, windows.MAXIMUM)
    if count:
        settings.append(_row("cpu_count", count, "windows.cpu_count", milli, count))
    if shares:
        inputs = (milli or request, processors, shares, "limit" if milli else "request")
        settings.append(_row("cpu_shares", shares, "windows.cpu_shares", *inputs))
    if maximum:
        settings.append(
            _row("cpu_maximum", maximum, "windows.cpu_maximum.design", milli, divisor, maximum)
        )
    return settings


def windows_settings(policy: NodePolicy, pod: Pod, container: Container) -> tuple[Setting, ...]:
    """The set fields of a container's WindowsContainerResources, as rows."""
    variant = policy.choices.windows
    limits = container.resources.limits
    milli = limits.get("cpu", ZERO).milli
    request = container.resources.requests.get("cpu", ZERO).milli
    memory = limits.get("memory", ZERO).value
    isolated = hyperv(policy, pod)
    settings: list[Setting] = []
    if variant == "none":
        return ()
    if variant == "1.10":
        settings = _first_form(policy, milli, isolated)
    elif variant == "design":
        settings = _design(policy, milli, request, isolated)
    elif milli:
        settings.append(_cap(milli, _processors(policy)))
    if memory:
        settings.append(_row("memory_limit_in_bytes", memory, "windows.memory", memory))
    return tuple(settings)


def windows_cri(settings: tuple[Setting, ...]) -> dict[str, Any]:
    """The rows as the protobuf message."""
    return {row.file: int(row.value) for row in settings}


def windows_oci(settings: tuple[Setting, ...]) -> dict[str, Any]:
    """The rows as ``windows.resources`` of the OCI config."""
    fields = windows_cri(settings)
    processor = {
        name.removeprefix("cpu_"): amount
        for name, amount in fields.items()
        if name.startswith("cpu_")
    }
    block: dict[str, Any] = {"cpu": processor} if processor else {}
    if "memory_limit_in_bytes" in fields:
        block["memory"] = {"limit": fields["memory_limit_in_bytes"]}
    return block
