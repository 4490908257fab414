"""Compares the values of one cgroup: file against plan, and unit property against plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.audit.context import AuditContext
from qoslet.core.audit.finding import SEVERITIES, Finding, Verdict, unexplained, unlike
from qoslet.core.audit.live import LiveCgroup, Units
from qoslet.core.audit.repair import UNKNOWN_SYSTEMD
from qoslet.core.audit.verdicts.alike import AlikeValues, alike_files
from qoslet.core.audit.verdicts.cpusets import UNCLEARED, Cpusets, can_be_cleared
from qoslet.core.audit.verdicts.earlier import EarlierConfiguration
from qoslet.core.audit.verdicts.left_behind import (
    CPUSETS,
    LIMITS,
    MEMORY_LIMITS,
    PERIOD,
    LeftBehind,
    left_behind,
    may_be_left,
)
from qoslet.core.audit.verdicts.resized import (
    LEFT_HIGH,
    is_high_of_pod_resize,
    left_by_resize,
    left_by_unsent_resize,
)
from qoslet.core.audit.verdicts.rounding import differs_by_rounding, doubled_by_kernel
from qoslet.core.audit.verdicts.unit_values import UnitProperty, canonical
from qoslet.core.cgroup.accepts import same
from qoslet.core.cgroup.interface_files import PROTECTION, controller, property_of, released
from qoslet.core.reconcile.file_writers import Level, resets
from qoslet.core.resources.cgroup_tree import Cgroup, Setting
from qoslet.core.rules.cpu import weight_linear, weight_quadratic

IDLE = "cpu.idle"


class _At(Struct, frozen=True):
    """A planned cgroup, what it has, its unit's properties, and the period of its v1 quota in microseconds."""

    cgroup: Cgroup
    live: LiveCgroup
    units: Units
    period_us: int


class Values:
    """The comparison of cgroups; ``compared`` counts the values. ``planned`` are those that are matched, by
    their paths."""

    def __init__(self, context: AuditContext, planned: Mapping[str, Cgroup]) -> None:
        self.compared = 0
        self._context = context
        self._alike = AlikeValues(context, planned)
        self._earlier = EarlierConfiguration(context)
        self._cpusets = Cpusets(context)
        node = context.node
        self._page = node.host.page_size
        self._hierarchy = node.hierarchy
        self._version = node.host.systemd or UNKNOWN_SYSTEMD

    def compare(self, cgroup: Cgroup, live: LiveCgroup) -> Iterator[Finding]:
        """The findings about the files of a planned cgroup, in the order of the plan, then about
        files that the plan does not set."""
        units = self._context.units.get(cgroup.unit or "", {})
        at = _At(cgroup, live, units, _period(cgroup))
        planned = {setting.file for setting in cgroup.settings}
        for setting in cgroup.settings:
            yield from self._setting(at, setting)
        level = self._context.level(cgroup)
        for file in may_be_left(level, self._hierarchy):
            if file not in planned and file in live.values:
                yield from self._unplanned(at, level, file)
        for file in alike_files(level):
            usual = self._alike.usual(live.path, file)
            if file not in planned and usual is not None:
                yield from self._unusual(at, file, usual)

    def _setting(self, at: _At, setting: Setting) -> Iterator[Finding]:
        """A planned value: file and property must have it."""
        file = setting.file
        if file in at.live.unread:
            return
        found = at.live.values.get(file)
        if found is None and self._machine_lacks(file):
            return
        self.compared += 1
        if found is None:
            if setting.value != released(file, self._hierarchy):
                yield self._absent(at, setting)
            return
        if not at.units and found == setting.applied:
            return
        unit = self._property(at, file)
        is_planned = found == setting.applied or same(file, setting.applied, found, self._page)
        if unit.says(setting.value) is False and (
            is_planned or self._is_rounded(at, setting, found)
        ):
            message = (
                f"{file} is {found} as planned, but systemd has {unit.name}={unit.text}: "
                "a daemon-reload writes that"
            )
            yield self._about("latent", at, setting, message)
        elif not is_planned:
            yield self._differing(at, setting, found, unit)

    def _differing(self, at: _At, setting: Setting, found: str, unit: UnitProperty) -> Finding:
        """A planned file that has another value."""
        file, cgroup, node = setting.file, at.cgroup, self._context.node
        unit_agrees = unit.says(setting.value)
        cause = self._left(at, setting, unit)
        if cause is None and unit_agrees is not False:
            cause = doubled_by_kernel(cgroup, setting, at.live, node, at.period_us)
        if cause is not None:
            message = f"{unlike(file, found, setting.applied)}: {cause}"
            return replace(self._about("stale", at, setting, message), severity="info")
        verdict, message = self._verdict(at, setting, found)
        if verdict == "stale" and unit_agrees and not _has_other_period(at, setting, found):
            # whatever leaves a value leaves it in the property, too
            verdict, message = "drift", unlike(file, found, setting.applied)
        finding = self._about(verdict, at, setting, message)
        is_earlier = self._is_of_earlier(cgroup, setting, verdict)
        may_be_earlier = unit_agrees is None or unit.says(found) is not False
        doubt = None
        if verdict == "drift" and may_be_earlier:
            doubt = self._earlier.doubt_of(cgroup, file)
        finding = replace(finding, is_earlier=is_earlier, doubt=doubt)
        if unit_agrees is None or verdict == "rounding":
            return finding
        return _with_unit(finding, unit_differs=not unit_agrees)

    def _left(self, at: _At, setting: Setting, unit: UnitProperty) -> str | None:
        """What a resize left in a planned file; protection is also in the unit's property then."""
        is_protection = setting.file in PROTECTION
        if is_protection and unit.says(at.live.values[setting.file]) is False:
            return None
        return left_by_resize(at.cgroup, setting, at.live, self._context.node)

    def _machine_lacks(self, file: str) -> bool:
        """Whether the machine has no such file, so that a kubelet does not write it. If the page sizes of
        the machine are not known, those of other machines are planned."""
        name, controllers = controller(file), self._context.live.controllers
        return name == "hugetlb" or (controllers is not None and name not in controllers)

    def _verdict(self, at: _At, setting: Setting, found: str) -> tuple[Verdict, str]:
        """Why a planned value differs."""
        file, cgroup = setting.file, at.cgroup
        plain = unlike(file, found, setting.applied)
        if self._is_rounded(at, setting, found):
            return "rounding", f"{plain}: the same value, rounded otherwise"
        earlier = self._earlier.left_by(cgroup, file)
        if earlier is not None:
            return "stale", f"{plain}: left by {earlier}; restarting the pod sets it"
        level = self._context.level(cgroup)
        is_left = self._is_cleared(setting) and not self._earlier.contradicts(cgroup, file, found)
        is_left = is_left and file != PERIOD and not self._never_had(cgroup, file)
        row = left_behind(level, file) if is_left else None
        # above pods the kubelet writes what it plans each minute: nothing is left there
        if row is not None and level not in ("kubepods", "qos"):
            return "stale", f"{plain}: {self._left_by(row)}"
        if file.startswith("hugetlb.") and level == "pod" and found == "0":
            return (
                "stale",
                f"{plain}: left by an in-place resize, which writes 0 (kubernetes PR 141991)",
            )
        curve = _other_curve(setting)
        if curve is not None and found == str(curve[1]):
            return "weights", f"{plain}: {found} is the {curve[0]} conversion of the CPU shares"
        unsent = left_by_unsent_resize(cgroup, setting)
        if unsent is not None:
            return "stale", f"{plain}: {unsent}"
        return "drift", plain

    def _is_of_earlier(self, cgroup: Cgroup, setting: Setting, verdict: Verdict) -> bool:
        """Whether only an earlier configuration can have left the pod's value. One that a resize may have
        left as well is stale in every pod, whatever its age."""
        if verdict != "stale" or cgroup.pod is None:
            return False
        if self._is_cleared(setting):
            return setting.file not in LIMITS
        return self._earlier.left_by(cgroup, setting.file) is not None

    def _is_cleared(self, setting: Setting) -> bool:
        """Whether the planned value is that of a new cgroup."""
        fresh = released(setting.file, self._hierarchy) or ""
        return same(setting.file, setting.value, fresh, self._page)

    def _is_rounded(self, at: _At, setting: Setting, found: str) -> bool:
        """Whether a value is the planned one, rounded otherwise."""
        return differs_by_rounding(setting, found, self._context.node, at.period_us)

    def _left_by(self, row: LeftBehind) -> str:
        """What left a value, and what clears it."""
        if self._context.is_own:
            return "left by an earlier plan; qoslet clears it with its next sync"
        return f"left by {row.cause}; {row.clear}"

    def _absent(self, at: _At, setting: Setting) -> Finding:
        message = f"{setting.file} does not exist, planned {setting.applied}"
        hint = "the kernel or its command line lacks it; see qoslet doctor"
        finding = self._about("missing", replace(at, units={}), setting, message)
        return replace(finding, hint=hint, fix=None)

    def _unplanned(self, at: _At, level: Level, file: str) -> Iterator[Finding]:
        """A file that no plan sets: it must have the value of a new cgroup."""
        found, fresh = at.live.values[file], self._cpusets.fresh(at.live, file)
        if fresh is None:
            return
        self.compared += 1
        if not at.units and found == fresh:
            return
        unit = self._property(at, file)
        expected = unit.expected(fresh)
        defaults = _defaults(file, expected)
        unit_differs = (
            expected is not None and canonical(unit.name, unit.text or "") not in defaults
        )
        is_fresh = same(file, fresh, found, self._page)
        if is_fresh and not unit_differs:
            return
        is_note = file == "memory.high" and is_high_of_pod_resize(
            at.cgroup, at.live, self._context.node
        )
        if is_note:
            verdict: Verdict = "stale"
            message = f"{unlike(file, found, None)}: {LEFT_HIGH}"
        elif is_fresh:
            verdict = "stale" if left_behind(level, file) is not None else "latent"
            message = f"systemd has {unit.name}={unit.text}, which no plan sets: a daemon-reload writes it"
        else:
            may_be_old = unit_differs or expected is None
            verdict, message = self._unplanned_verdict(at, level, file, may_be_old)
        setting = Setting(file, fresh, "", (), "qoslet" if self._context.is_own else "kubelet")
        finding = self._about(verdict, at, setting, message)
        if not fresh and not can_be_cleared(self._context.node):
            finding = replace(finding, fix=None, hint=f"{UNCLEARED}: restart the pod")
        if not self._context.is_own:
            # its writer writes what it plans, and not here
            finding = replace(finding, reset_by=self._reset_by_unit(at, file))
        if not is_fresh:
            is_earlier = not is_note and self._is_of_earlier(at.cgroup, setting, verdict)
            finding = replace(_with_unit(finding, unit_differs=unit_differs), is_earlier=is_earlier)
        yield replace(finding, severity="info") if is_note else finding

    def _unplanned_verdict(
        self, at: _At, level: Level, file: str, may_be_old: bool
    ) -> tuple[Verdict, str]:
        """Why a file has a value that no plan sets. ``may_be_old``: its unit does not say otherwise."""
        found, row = at.live.values[file], left_behind(level, file)
        if row is None or not may_be_old or self._is_by_hand(at.cgroup, file, at.live):
            return "drift", unexplained(file, found, None)
        earlier = self._earlier.left_by(at.cgroup, file)
        cause = self._left_by(row) if earlier is None else f"left by {earlier}; {row.clear}"
        return "stale", f"{unlike(file, found, None)}: {cause}"

    def _unusual(self, at: _At, file: str, usual: str) -> Iterator[Finding]:
        """A file that no plan sets, but a runtime or systemd sets alike in all cgroups of a level."""
        self.compared += 1
        found = at.live.values[file]
        if found == usual:
            return
        message = f"{file} is {found}, but {usual} in those that were created before and after"
        finding = self._about("drift", at, Setting(file, usual, "", (), "runtime"), message)
        finding = replace(finding, reset_by=self._reset_by_unit(at, file))
        unit_differs = self._property(at, file).says(usual) is False
        yield _with_unit(finding, unit_differs=unit_differs)

    def _is_by_hand(self, cgroup: Cgroup, file: str, live: LiveCgroup) -> bool:
        """Whether no earlier configuration can have left the value."""
        if file in CPUSETS and cgroup.container is not None:
            return not self._cpusets.may_be_left(cgroup, live, file)
        if file in MEMORY_LIMITS and self._context.level(cgroup) == "qos":
            return not self._context.limits_both_classes(file)
        if self._never_had(cgroup, file) or file == PERIOD:
            return self._earlier.left_by(cgroup, file) is None
        if file.startswith("memory."):
            # without Memory QoS nothing tells how much it gave
            return False
        return self._earlier.contradicts(cgroup, file, live.values[file])

    def _never_had(self, cgroup: Cgroup, file: str) -> bool:
        """Whether a file limits what the pod's spec never limited, as the pod was never resized."""
        if self._context.is_own or cgroup.pod is None:
            return False
        return cgroup.pod.was_changed is False and file in LIMITS

    def _about(self, verdict: Verdict, at: _At, setting: Setting, message: str) -> Finding:
        """A finding about a file."""
        context, file = self._context, setting.file
        unit = self._property(at, file)
        owner = context.owner(at.cgroup, file, is_kept=self._is_kept(at, file))
        plain = context.finding(verdict, at.cgroup, at.live.path, message)
        named = setting.rule != ""
        return replace(
            plain,
            severity=SEVERITIES.get(verdict, "warning"),
            file=file,
            expected=setting.applied,
            found=at.live.values.get(file),
            property_text=unit.text,
            property_name=unit.name or None if unit.text is not None else None,
            writer=setting.writer if named and not context.is_own else owner.writer,
            may_have=owner.may_have,
            reset_by=owner.reset_by,
            rule=setting.rule or None,
            because=setting.because if named else None,
            source=setting.source if named else None,
            fix=self._fix(at, setting),
        )

    def _reset_by_unit(self, at: _At, file: str) -> str:
        """What resets a value that neither kubelet nor runtime writes to this file."""
        return resets(None, file, at.cgroup.unit is not None and not self._is_kept(at, file))

    def _is_kept(self, at: _At, file: str) -> bool:
        """Whether the unit's property has the value found, so that systemd would write it again."""
        found = at.live.values.get(file)
        return found is not None and self._property(at, file).says(found) is True

    def _fix(self, at: _At, setting: Setting) -> str:
        """The shell line that writes the value. With ``cpu.idle`` it also writes the weight; before the
        weight of an idle cgroup, which the kernel refuses to write, it clears ``cpu.idle``."""
        cgroup, live = at.cgroup, at.live
        rows, weight = [setting], weight_of(cgroup)
        if weight is not None and setting.file == IDLE:
            rows.append(weight)
        elif weight is not None and setting.file == weight.file and live.values.get(IDLE) == "1":
            rows.insert(0, Setting(IDLE, "0", "", (), setting.writer))
        write = self._context.repair.write
        return " && ".join(write(live.path, one.file, one.value, cgroup.unit) for one in rows)

    def _property(self, at: _At, file: str) -> UnitProperty:
        """The unit's property for a file."""
        name = property_of(file, self._hierarchy, self._version) or ""
        text = at.units.get(name)
        return UnitProperty(
            file, name, text, at.period_us, self._hierarchy, self._version, self._page
        )


def _with_unit(finding: Finding, *, unit_differs: bool) -> Finding:
    """The finding with a hint about systemd's property; ``unit_differs``: that has not what is expected."""
    if finding.property_text is None or finding.hint:
        return finding
    says = "the value as a property: it was set through systemd"
    if not unit_differs:
        says = "another value: the file was written without systemd, and a daemon-reload reverts it"
    return replace(finding, hint=f"systemd has {says}")


def weight_of(cgroup: Cgroup) -> Setting | None:
    """The planned weight, which the kernel forgets when it ends ``IDLE``. Source: kernel/sched/fair.c
    sched_group_set_idle."""
    return cgroup.by_file.get("cpu.weight") or cgroup.by_file.get("cpu.shares")


def _period(cgroup: Cgroup) -> int:
    """The period of the cgroup's v1 quota in microseconds."""
    setting = cgroup.by_file.get("cpu.cfs_period_us")
    return int(setting.value) if setting is not None and setting.value.isdecimal() else 100_000


def _has_other_period(at: _At, setting: Setting, found: str) -> bool:
    """Whether a quota was written with another period than the planned one, of which the unit's property
    of the quota says nothing."""
    if setting.file == "cpu.max":
        return found.partition(" ")[2] != setting.applied.partition(" ")[2]
    there = at.live.values.get("cpu.cfs_period_us")
    return setting.file == "cpu.cfs_quota_us" and there not in (None, str(at.period_us))


def _defaults(file: str, expected: str | None) -> tuple[str | None, ...]:
    """What a property says that nobody set: weights are unset, or systemd's default."""
    return (expected, "infinity", "0") if file in PROTECTION else (expected, "infinity", "")


def _other_curve(setting: Setting) -> tuple[str, int] | None:
    """The conversion of CPU shares that the plan does not use, and the weight that it gives."""
    if setting.file != "cpu.weight" or not setting.inputs:
        return None
    shares = setting.inputs[-1] if setting.rule.startswith("cpu.") else setting.inputs[0]
    if not isinstance(shares, int):
        return None
    if setting.rule.endswith(".linear"):
        return "logarithmic", weight_quadratic(shares)
    return "linear", weight_linear(shares)
