"""Values that differ from the planned one only as the kernel, systemd or a runtime rounds, or as the kernel
scales them.

Source: kernel/sched/fair.c sched_cfs_period_timer since Linux 5.4: a timer of a period that runs late
four times in a row, as on an overcommitted virtual machine, doubles quota and period, as long as the period stays
below 1 s ("period too short, scaling up" in the kernel's log); until 5.3 by 147/128.
"""

from __future__ import annotations

from qoslet.core.audit.live import LiveCgroup
from qoslet.core.cgroup.unit_properties import written_by_systemd
from qoslet.core.node.node import Node
from qoslet.core.resources.cgroup_tree import Cgroup, Setting

_BYTES = ("memory.", "hugetlb.")
_FACTORS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
_LONGEST_US = 1_000_000
_PERIOD, _QUOTA = "cpu.cfs_period_us", "cpu.cfs_quota_us"
_LOG = "dmesg has `period too short, scaling up`"


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


def doubled_by_kernel(
    cgroup: Cgroup, setting: Setting, live: LiveCgroup, node: Node, period_us: int
) -> str | None:
    """What the kernel made of a planned limit, as a sentence; None: nothing. ``period_us`` is that of a v1
    quota."""
    if setting.file == "cpu.max":
        quota, _, period = live.values.get("cpu.max", "").partition(" ")
        limit: Setting | None = setting
        period_us = _number(setting.applied.partition(" ")[2])
    elif setting.file in (_PERIOD, _QUOTA):
        quota, period = live.values.get(_QUOTA, ""), live.values.get(_PERIOD, "")
        limit = next((one for one in cgroup.settings if one.file == _QUOTA), None)
    else:
        return None
    factor = _number(period) // period_us if period_us else 0
    late = factor in _FACTORS and _number(period) == factor * period_us < _LONGEST_US
    if limit is None or not late or not quota.isdecimal() or int(quota) % factor:
        return None
    before = str(int(quota) // factor)
    if limit.file == "cpu.max":
        before += f" {period_us}"
    if before != limit.applied and not differs_by_rounding(limit, before, node, period_us):
        return None
    return f"the same limit, quota and period {factor} times, as the kernel makes them where its timer is late ({_LOG})"


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
