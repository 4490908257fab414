"""Compares the values of one cgroup: file against plan, and unit property against plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from qoslet.core.audit.context import AuditContext
from qoslet.core.audit.finding import SEVERITIES, Finding, Verdict, unlike
from qoslet.core.audit.live import LiveCgroup, Units
from qoslet.core.audit.repair import UNKNOWN_SYSTEMD
from qoslet.core.audit.verdicts.alike import AlikeValues, alike_files
from qoslet.core.audit.verdicts.cpusets import UNCLEARED, Cpusets, can_be_cleared
from qoslet.core.audit.verdicts.earlier import EarlierConfiguration
from qoslet.core.audit.verdicts.left_behind import (
    CPUSETS,
    LIMITS,
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
from qoslet.core.audit.verdicts.unit_values import agrees, canonical, wanted
from qoslet.core.cgroup.accepts import same
from qoslet.core.cgroup.interface_files import PROTECTION, controller, property_of, released
from qoslet.core.reconcile.file_writers import Level, resets
from qoslet.core.resources.cgroup_tree import Cgroup, Setting
from qoslet.core.rules.cpu import weight_linear, weight_quadratic

IDLE = "cpu.idle"


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
        planned = {setting.file for setting in cgroup.settings}
        period = _period(cgroup)
        for setting in cgroup.settings:
            yield from self._setting(cgroup, setting, live, units, period)
        level = self._context.level(cgroup)
        for file in may_be_left(level, self._hierarchy):
            if file not in planned and file in live.values:
                yield from self._unplanned(cgroup, level, file, live, units, period)
        for file in alike_files(level):
            usual = self._alike.usual(live.path, file)
            if file not in planned and usual is not None:
                yield from self._unusual(cgroup, file, usual, live, units)

    def _setting(
        self, cgroup: Cgroup, setting: Setting, live: LiveCgroup, units: Units, period: int
    ) -> Iterator[Finding]:
        file = setting.file
        if file in live.unread:
            return
        found = live.values.get(file)
        if found is None and self._machine_lacks(file):
            return
        self.compared += 1
        if found is None:
            if setting.value != released(file, self._hierarchy):
                yield self._absent(cgroup, setting, live)
            return
        if not units and found == setting.applied:
            return
        text = self._text(file, units)
        expected = wanted(file, setting.value, period, self._hierarchy, self._version)
        known = text is not None and expected is not None
        off = known and not agrees(self._name(file), text or "", expected or "", self._page)
        is_planned = found == setting.applied or same(file, setting.applied, found, self._page)
        if off and (is_planned or self._is_rounded(setting, found, period)):
            yield self._about(
                "latent", cgroup, setting, live, found, text,
                f"{file} is {found} as planned, but systemd has {self._name(file)}={text}: "
                "a daemon-reload writes that",
            )  # fmt: skip
            return
        if is_planned:
            return
        told = self._left(cgroup, setting, live, text, period)
        if told is None and not off:
            told = doubled_by_kernel(cgroup, setting, live, self._context.node, period)
        if told is not None:
            message = f"{unlike(file, found, setting.applied)}: {told}"
            note = self._about("stale", cgroup, setting, live, found, text, message)
            yield replace(note, severity="info")
            return
        verdict, message = self._verdict(cgroup, setting, found, period)
        tells = known and not _has_other_period(setting, live, found, period)
        if verdict == "stale" and tells and not off:
            # whatever leaves a value leaves it in the property, too
            verdict, message = "drift", unlike(file, found, setting.applied)
        finding = self._about(verdict, cgroup, setting, live, found, text, message)
        is_earlier = self._is_of_earlier(cgroup, setting, verdict)
        is_told = verdict == "drift" and (not known or self._says(file, text, found, period))
        doubt = self._earlier.doubt_of(cgroup, file) if is_told else None
        finding = replace(finding, is_earlier=is_earlier, doubt=doubt)
        yield self._with_unit(finding, off, known and verdict != "rounding")

    def _left(
        self, cgroup: Cgroup, setting: Setting, live: LiveCgroup, text: str | None, period: int
    ) -> str | None:
        """What a resize left in a planned file; protection is also in the unit's property then."""
        file, is_kept = setting.file, text is not None and setting.file in PROTECTION
        if is_kept and not self._says(file, text, live.values[file], period):
            return None
        return left_by_resize(cgroup, setting, live, self._context.node)

    def _says(self, file: str, text: str | None, found: str, period: int) -> bool:
        """Whether the unit's property says what was found in the file."""
        said = wanted(file, found, period, self._hierarchy, self._version)
        return said is None or agrees(self._name(file), text or "", said, self._page)

    def _machine_lacks(self, file: str) -> bool:
        """Whether the machine has no such file: kubelets write what it has. Page sizes of others are
        planned where its own are not known."""
        name, controllers = controller(file), self._context.live.controllers
        return name == "hugetlb" or (controllers is not None and name not in controllers)

    def _verdict(
        self, cgroup: Cgroup, setting: Setting, found: str, period: int
    ) -> tuple[Verdict, str]:
        """Why a planned value differs."""
        file, plain = setting.file, unlike(setting.file, found, setting.applied)
        if self._is_rounded(setting, found, period):
            return "rounding", f"{plain}: the same value, rounded otherwise"
        earlier = self._earlier.left_by(cgroup, setting.file)
        if earlier is not None:
            return "stale", f"{plain}: left by {earlier}; restarting the pod sets it"
        level = self._context.level(cgroup)
        is_left = self._is_cleared(setting) and not self._earlier.contradicts(cgroup, file, found)
        is_left = is_left and not self._never_had(cgroup, file)
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
        """Whether only an earlier configuration leaves a value in a pod: what a resize may have left as well
        stays stale in every pod."""
        if verdict != "stale" or cgroup.pod is None:
            return False
        if self._is_cleared(setting):
            return setting.file not in LIMITS
        return self._earlier.left_by(cgroup, setting.file) is not None

    def _is_cleared(self, setting: Setting) -> bool:
        """Whether the value of a new cgroup is planned."""
        fresh = released(setting.file, self._hierarchy) or ""
        return same(setting.file, setting.value, fresh, self._page)

    def _is_rounded(self, setting: Setting, found: str, period: int) -> bool:
        """Whether a value is the planned one, rounded otherwise."""
        return differs_by_rounding(setting, found, self._context.node, period)

    def _left_by(self, row: LeftBehind) -> str:
        """What left a value, and what clears it."""
        if self._context.is_own:
            return "left by an earlier plan; qoslet clears it with its next sync"
        return f"left by {row.cause}; {row.clear}"

    def _absent(self, cgroup: Cgroup, setting: Setting, live: LiveCgroup) -> Finding:
        message = f"{setting.file} does not exist, planned {setting.applied}"
        hint = "the kernel or its command line lacks it; see qoslet doctor"
        finding = self._about("missing", cgroup, setting, live, None, None, message)
        return replace(finding, hint=hint, fix=None)

    def _unplanned(
        self,
        cgroup: Cgroup,
        level: Level,
        file: str,
        live: LiveCgroup,
        units: Units,
        period: int,
    ) -> Iterator[Finding]:
        """A file that nobody sets here must have the value of a new cgroup."""
        found = live.values[file]
        fresh = self._cpusets.fresh(live, file)
        if fresh is None:
            return
        self.compared += 1
        if not units and found == fresh:
            return
        text = self._text(file, units)
        expected = wanted(file, fresh, period, self._hierarchy, self._version)
        off = text is not None and expected is not None
        off = off and canonical(self._name(file), text or "") not in _defaults(file, expected)
        clean = same(file, fresh, found, self._page)
        if clean and not off:
            return
        row = left_behind(level, file)
        if not clean and self._is_by_hand(cgroup, file, live):
            row = None
        if clean:
            verdict: Verdict = "stale" if row is not None else "latent"
            message = f"systemd has {self._name(file)}={text}, which no plan sets: a daemon-reload writes it"
        elif row is not None and (off or text is None or expected is None):
            verdict, earlier = "stale", self._earlier.left_by(cgroup, file)
            cause = self._left_by(row) if earlier is None else f"left by {earlier}; {row.clear}"
            message = f"{file} is {found}, not planned: {cause}"
        else:
            verdict, message = "drift", f"{file} is {found}, but nothing on this node sets it here"
        is_note = file == "memory.high" and is_high_of_pod_resize(cgroup, live, self._context.node)
        if is_note:
            verdict, message = "stale", f"{file} is {found}, not planned: {LEFT_HIGH}"
        setting = Setting(file, fresh, "", (), "qoslet" if self._context.is_own else "kubelet")
        finding = self._about(verdict, cgroup, setting, live, found, text, message)
        if not fresh and not can_be_cleared(self._context.node):
            finding = replace(finding, fix=None, hint=f"{UNCLEARED}: restart the pod")
        if not self._context.is_own:
            # its writer writes what it plans, and not here
            finding = replace(finding, reset_by=self._reset_by_unit(cgroup, file, text, found))
        hint = self._hint(finding, bool(off), clean)
        is_earlier = not is_note and not clean and self._is_of_earlier(cgroup, setting, verdict)
        finding = replace(finding, hint=hint, is_earlier=is_earlier)
        yield replace(finding, severity="info") if is_note else finding

    def _unusual(
        self, cgroup: Cgroup, file: str, usual: str, live: LiveCgroup, units: Units
    ) -> Iterator[Finding]:
        """A file that nobody sets here, but a runtime or systemd for all alike."""
        self.compared += 1
        found, text = live.values[file], self._text(file, units)
        if found == usual:
            return
        message = f"{file} is {found}, but {usual} in those that were created before and after"
        setting = Setting(file, usual, "", (), "runtime")
        finding = self._about("drift", cgroup, setting, live, found, text, message)
        said = wanted(file, usual, 0, self._hierarchy, self._version)
        off = text is not None and not agrees(self._name(file), text, said or "", self._page)
        finding = replace(finding, reset_by=self._reset_by_unit(cgroup, file, text, found))
        yield self._with_unit(finding, off, text is not None)

    def _is_by_hand(self, cgroup: Cgroup, file: str, live: LiveCgroup) -> bool:
        """Whether no configuration of before leaves such a value."""
        if file in CPUSETS and cgroup.container is not None:
            return not self._cpusets.may_be_left(cgroup, live, file)
        if self._never_had(cgroup, file):
            return self._earlier.left_by(cgroup, file) is None
        # without Memory QoS nothing tells how much it gave
        is_told = not file.startswith("memory.")
        return is_told and self._earlier.contradicts(cgroup, file, live.values[file])

    def _never_had(self, cgroup: Cgroup, file: str) -> bool:
        """Whether a file of a pod or container limits what its spec never did: no resize changed it."""
        pod = cgroup.pod
        is_told = not self._context.is_own and pod is not None and pod.was_changed is False
        return is_told and file in LIMITS

    def _about(
        self,
        verdict: Verdict,
        cgroup: Cgroup,
        setting: Setting,
        live: LiveCgroup,
        found: str | None,
        text: str | None,
        message: str,
    ) -> Finding:
        """A finding about a file."""
        context, file = self._context, setting.file
        owner = context.owner(cgroup, file, is_kept=self._is_kept(cgroup, file, text, found))
        plain = context.finding(verdict, cgroup, live.path, message)
        named = setting.rule != ""
        return replace(
            plain,
            severity=SEVERITIES.get(verdict, "warning"),
            file=file,
            expected=setting.applied,
            found=found,
            property_text=text,
            property_name=self._name(file) or None if text is not None else None,
            writer=setting.writer if named and not context.is_own else owner.writer,
            may_have=owner.may_have,
            reset_by=owner.reset_by,
            rule=setting.rule or None,
            because=setting.because if named else None,
            source=setting.source if named else None,
            fix=self._fix(cgroup, setting, live),
        )

    def _reset_by_unit(self, cgroup: Cgroup, file: str, text: str | None, found: str) -> str:
        """What resets a value that no kubelet or runtime writes here."""
        is_kept = self._is_kept(cgroup, file, text, found)
        return resets(None, file, cgroup.unit is not None and not is_kept)

    def _is_kept(self, cgroup: Cgroup, file: str, text: str | None, found: str | None) -> bool:
        """Whether the unit's property has what was found, so that systemd writes the same again."""
        if text is None or found is None:
            return False
        said = wanted(file, found, _period(cgroup), self._hierarchy, self._version)
        return said is not None and agrees(self._name(file), text, said, self._page)

    def _fix(self, cgroup: Cgroup, setting: Setting, live: LiveCgroup) -> str:
        """The line that writes a value; that of an idle cgroup writes its weight, too, and that of its
        weight, which the kernel refuses to write while it is idle, ends that."""
        rows, weight = [setting], weight_of(cgroup)
        if weight is not None and setting.file == IDLE:
            rows.append(weight)
        elif weight is not None and setting.file == weight.file and live.values.get(IDLE) == "1":
            rows.insert(0, Setting(IDLE, "0", "", (), setting.writer))
        write = self._context.repair.write
        return " && ".join(write(live.path, one.file, one.value, cgroup.unit) for one in rows)

    def _with_unit(self, finding: Finding, off: bool, known: bool) -> Finding:
        """The finding with what systemd's property says of it."""
        if not known:
            return finding
        return replace(finding, hint=self._hint(finding, off, clean=False))

    def _hint(self, finding: Finding, off: bool, clean: bool) -> str:
        if clean or finding.property_text is None or finding.hint:
            return finding.hint
        if off:
            return "systemd has the value as a property: it was set through systemd"
        return "systemd has another value: the file was written without systemd, and a daemon-reload reverts it"

    def _name(self, file: str) -> str:
        return property_of(file, self._hierarchy, self._version) or ""

    def _text(self, file: str, units: Units) -> str | None:
        """What the unit says of a file; None where it has no property for it."""
        return units.get(self._name(file)) if units else None


def weight_of(cgroup: Cgroup) -> Setting | None:
    """The planned weight, which the kernel forgets when it ends ``IDLE``. Source: kernel/sched/fair.c
    sched_group_set_idle."""
    return cgroup.by_file.get("cpu.weight") or cgroup.by_file.get("cpu.shares")


def _period(cgroup: Cgroup) -> int:
    """The period of the cgroup's v1 quota in microseconds."""
    setting = cgroup.by_file.get("cpu.cfs_period_us")
    return int(setting.value) if setting is not None and setting.value.isdecimal() else 100_000


def _has_other_period(setting: Setting, live: LiveCgroup, found: str, period: int) -> bool:
    """Whether a quota was written with another period than the planned one, of which the unit's property
    of the quota says nothing. ``period`` is that of v1."""
    if setting.file == "cpu.max":
        return found.partition(" ")[2] != setting.applied.partition(" ")[2]
    there = live.values.get("cpu.cfs_period_us")
    return setting.file == "cpu.cfs_quota_us" and there not in (None, str(period))


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
