"""Values that differ from the planned one only as the kernel, systemd or a runtime rounds."""

from __future__ import annotations

from qoslet.core.cgroup.unit_properties import written_by_systemd
from qoslet.core.node.node import Node
from qoslet.core.resources.cgroup_tree import Setting

_BYTES = ("memory.", "hugetlb.")


def differs_by_rounding(setting: Setting, found: str, node: Node, period_us: int) -> bool:
    """Whether ``found`` is the planned value, rounded otherwise: to the next page, or with the
    systemd driver to percents of a CPU. ``period_us`` is that of a v1 quota."""
    value, file = setting.value, setting.file
    if found == value:
        return True
    if file.startswith(_BYTES) and value.isdecimal():
        page = node.host.page_size
        return found == str(-(-int(value) // page) * page)
    if node.driver != "systemd" or file not in ("cpu.max", "cpu.cfs_quota_us"):
        return False
    try:
        return found == written_by_systemd(file, value, period_us)
    except ValueError:
        return False
