"""The pods of many files, updated file by file.

A file with a fault keeps its earlier pods. If several files have a pod of the same name or UID, the
pod of the first file counts; without it that of the next. But a UID and a name stay with the pod that
runs, and with the file that it comes from. Different objects that would have pods of one name each have theirs (``namesakes``). An update
takes time in proportion to its file and to the pods that it collides with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from qoslet.core.api.config.index import ConfigIndex
from qoslet.core.api.documents import Document, FileOrder
from qoslet.core.api.input.entry import Entry as Entry
from qoslet.core.api.input.entry import Place as Place
from qoslet.core.api.input.fault_rows import fault_of, fault_rows
from qoslet.core.api.input.incumbents import holders, incumbents
from qoslet.core.api.manifest import Options, some_pods
from qoslet.core.api.owners import Claim, Owners, Workload
from qoslet.core.api.platform.class_index import RuntimeClassIndex
from qoslet.core.api.pod_decoder import PodReader
from qoslet.core.problem import Problem
from qoslet.errors import BadInput

_READS_BY_ONE = 1024
"""Files after which what a reader remembers of names and resources is let go."""


class FileChange(Struct, frozen=True):
    """A file as it was read: ``documents`` with the faults among them, None where it is gone.
    ``file`` is its name as it may be shown; ``given``: a person named this very file."""

    file: str
    order: FileOrder
    documents: tuple[Document | BadInput, ...] | None
    given: bool = False


class _File(Struct):
    """The pods of a file's last valid content, and its current faults."""

    file: str
    given: bool
    entries: tuple[Entry, ...] = ()
    sources: int = 0
    rows: tuple[Problem, ...] = ()
    faults: tuple[BadInput, ...] = ()
    owners: Owners = field(default_factory=Owners)
    refused: dict[Place, Problem] = {}


class ManifestSet:
    """The files. ``entries`` are the pods that count, by UID; ``config`` the ConfigMaps and
    Secrets. ``running`` names the pod that runs with a UID, empty for none."""

    def __init__(self, options: Options, running: Callable[[str], str] = lambda uid: "") -> None:
        self._running = running
        self._started_from: Mapping[str, str] = {}
        self._options = replace(options, keep_raw=True)
        self._reader = PodReader(options.allocated)
        self._reads = 0
        self._files: dict[FileOrder, _File] = {}
        self._named: dict[str, dict[Place, Entry]] = {}
        self._known: dict[str, dict[Place, Entry]] = {}
        self._templated: set[FileOrder] = set()
        self._related: set[FileOrder] = set()
        self._left_out: dict[Workload, str] = {}
        self._renamed: dict[Place, Entry] = {}
        self._telling: set[FileOrder] = set()
        self._rows: tuple[Problem, ...] | None = None
        self.entries: dict[str, Entry] = {}
        self.config = ConfigIndex()
        self._classes = RuntimeClassIndex()

    def apply(self, changes: Iterable[FileChange]) -> set[str]:
        """Take changes in; the UIDs whose entry came, went or became another."""
        moved: list[Entry] = []
        files = []
        for change in changes:
            files.append(change.order)
            moved += self._take(change)
        moved += self._judge_owners()
        moved += self._judge_classes()
        touched = self._judge(moved) if moved else set()
        for order in files:
            self._note_problems(order)
        if files:
            self._rows = None
        return touched

    def keep(self, files: Mapping[str, str]) -> None:
        """Let those UIDs stay with the pods that turned out to run, and these with the files that they
        were started from."""
        self._started_from = files
        known = [entry for uid in files for entry in self._known.get(uid, {}).values()]
        self._judge(
            one for one in known if any(len(index[key]) > 1 for index, key in self._indexed(one))
        )
        self._started_from = {}
        self._rows = None

    @property
    def rows(self) -> tuple[Problem, ...]:
        """The problems of the files, in order."""
        if self._rows is None:
            named = self._classes_named()
            self._rows = tuple(
                row
                for order in sorted(self._telling)
                for file in (self._files[order],)
                for row in (
                    *fault_rows(file.file, file.faults, has_pods=bool(file.entries)),
                    *file.rows,
                    *(file.refused[place] for place in sorted(file.refused)),
                    *self.config.rows(order),
                    *self._classes.rows(order, named),
                )
            )
        return self._rows

    @property
    def faults(self) -> list[BadInput]:
        """The faults of the files that a person named, in their order."""
        files = [self._files[order] for order in sorted(self._telling)]
        return [fault for file in files if file.given for fault in file.faults]

    def rejected_edits(self) -> dict[str, str]:
        """Why the manifest of a pod as it is now does not count, by UID: the pods of files with a
        fault are what they were before."""
        telling = [self._files[order] for order in self._telling]
        return {
            counted.pod.uid: fault_of(entry.pod.where, file.faults)
            for file in telling
            if file.faults
            for entry in file.entries
            if self._counts(counted := self._counted(entry))
        }

    @property
    def faulty(self) -> frozenset[str]:
        """The files that have a fault."""
        told = (self._files[order] for order in self._telling)
        return frozenset(file.file for file in told if file.faults)

    @property
    def files(self) -> frozenset[str]:
        """All of them."""
        return frozenset(file.file for file in self._files.values())

    @property
    def sources(self) -> int:
        """How many documents may hold pods."""
        return sum(file.sources for file in self._files.values())

    def _take(self, change: FileChange) -> list[Entry]:
        """Read a file; the entries that it has not had or has no longer."""
        file = self._files.get(change.order)
        if change.documents is None:
            self.config.replace(change.order, ())
            self._classes.replace(change.order, {})
            self._own(change.order, Owners())
            if self._files.pop(change.order, None) is None or file is None:
                return []
            return self._replace(file.entries, ())
        if file is None:
            file = self._files[change.order] = _File(change.file, change.given)
        self._reads += 1
        if self._reads % _READS_BY_ONE == 0:
            self._reader = PodReader(self._options.allocated)
        loaded = some_pods(change.documents, self._options, self._reader)
        file.faults = tuple(loaded.faults)
        if file.faults:
            return []
        before, file.entries = (
            file.entries,
            tuple(
                Entry(
                    pod,
                    loaded.raw.get(pod.uid, {}),
                    change.file,
                    (change.order, at),
                    loaded.templates.get(pod.uid),
                    loaded.claims.get(pod.uid),
                )
                for at, pod in enumerate(loaded.pods)
            ),
        )
        file.rows, file.sources = tuple(loaded.problems), loaded.sources
        file.owners = loaded.owners
        self.config.replace(change.order, loaded.config)
        self._classes.replace(change.order, loaded.runtime_classes)
        self._own(change.order, file.owners)
        return self._replace(before, file.entries)

    def _replace(self, before: tuple[Entry, ...], after: tuple[Entry, ...]) -> list[Entry]:
        """Index the entries that have come, and no longer those that have gone."""
        old = {entry.place: entry for entry in before}
        moved = []
        for entry in after:
            if old.get(entry.place) == entry:
                del old[entry.place]
                continue
            moved.append(entry)
        for entry in old.values():
            if (file := self._files.get(entry.place[0])) is not None:
                file.refused.pop(entry.place, None)
            for index, name in self._indexed(entry):
                index[name].pop(entry.place, None)
                if not index[name]:
                    del index[name]
        for entry in moved:
            for index, name in self._indexed(entry):
                index.setdefault(name, {})[entry.place] = entry
        return [*moved, *old.values()]

    def _indexed(self, entry: Entry) -> Iterator[tuple[dict[str, dict[Place, Entry]], str]]:
        """Where an entry stands."""
        for key in entry.keys:
            yield self._named, key
        yield self._known, entry.pod.uid

    def _own(self, order: FileOrder, owners: Owners) -> None:
        """Record the files that ``_judge_owners`` considers."""
        (self._related.add if owners.related else self._related.discard)(order)
        (self._templated.add if owners.templates else self._templated.discard)(order)

    def _judge_owners(self) -> list[Entry]:
        """See which templates are in the input a second time, as what was made of them; the
        entries of those that are or were."""
        owners = Owners()
        if self._related and self._templated:
            for order in self._related | self._templated:
                owners.join(self._files[order].owners)
        judged = ((workload, owners.left_out(workload)) for workload in owners.templates)
        left_out = {workload: reason for workload, reason in judged if reason}
        other = {workload for workload, _ in left_out.items() ^ self._left_out.items()}
        self._left_out = left_out
        if not other:
            return []
        files = self._files.values()
        return [entry for file in files for entry in file.entries if entry.workload in other]

    def _judge_classes(self) -> list[Entry]:
        """See which RuntimeClasses count; the entries of pods that name one that changed."""
        changed = self._classes.judge()
        if not changed:
            return []
        files = self._files.values()
        entries = [entry for file in files for entry in file.entries]
        return [entry for entry in entries if entry.pod.platform.runtime_class in changed]

    def _classes_named(self) -> set[str]:
        """The RuntimeClasses that pods name; none where there are no classes."""
        if not self._classes.any:
            return set()
        entries = [entry for file in self._files.values() for entry in file.entries]
        return {entry.pod.platform.runtime_class or "" for entry in entries}

    def _judge(self, moved: Iterable[Entry]) -> set[str]:
        """Decide again which of the entries that collide with ``moved`` count."""
        moved = list(moved)
        entries, uids = self._colliding(moved)
        for place in {entry.place for entry in (*moved, *entries)}:
            if (renamed := self._renamed.pop(place, None)) is not None:
                uids.add(renamed.pod.uid)
        before = {uid: self.entries.pop(uid, None) for uid in uids}
        names: set[str] = set()
        objects: dict[Claim | str, Entry] = {}
        others: list[Entry] = []
        first = holders(entries, self._running)
        first |= incumbents(entries, before, self._started_from, self._running)
        for entry in sorted(entries, key=lambda one: (one.place not in first, one.precedence)):
            self._files[entry.place[0]].refused.pop(entry.place, None)
            if row := self._refusal(entry, objects):
                self._files[entry.place[0]].refused[entry.place] = row
            elif entry.keys[0] in names:
                objects[entry.identity] = entry
                others.append(entry)
            else:
                name = entry.keys[0].partition("/")[2]
                if self._count(entry, name, before):
                    names.add(entry.keys[0])
                    objects[entry.identity] = entry
        for entry in others:
            self._count(entry, self._other_name(entry, names), before)
        for entry in entries:
            self._note_problems(entry.place[0])
        made = {entry.pod.uid for entry in map(self._counted, entries)}
        return {uid for uid in uids | made if before.get(uid) is not self.entries.get(uid)}

    def _colliding(self, moved: Iterable[Entry]) -> tuple[list[Entry], set[str]]:
        """The current entries that share a name or UID with ``moved``, also through others, and the
        UIDs of all."""
        colliding: dict[Place, Entry] = {}
        uids: set[str] = set()
        waiting = list(moved)
        while waiting:
            entry = waiting.pop()
            uids.add(entry.pod.uid)
            for index, name in self._indexed(entry):
                for place, other in index.get(name, {}).items():
                    if place not in colliding:
                        colliding[place] = other
                        waiting.append(other)
        return list(colliding.values()), uids

    def _counts(self, entry: Entry) -> bool:
        """Whether it is this one that counts of all that want its UID."""
        now = self.entries.get(entry.pod.uid)
        return now is not None and now.place == entry.place

    def _counted(self, entry: Entry) -> Entry:
        """The entry under the name that it has among all files."""
        return self._renamed.get(entry.place, entry)

    def _other_name(self, entry: Entry, names: set[str]) -> str:
        """A name of its own, which is one of ``names`` then, for what cannot have the one it wants."""
        from qoslet.core.api.input.namesakes import claim_for, free_name

        def is_free(key: str, uid: str) -> bool:
            return key not in names and uid not in self.entries

        claim = entry.claim or claim_for(entry.pod, {})
        name = free_name(claim, is_free)
        names.add(f"{claim.namespace}/{name}")
        return name

    def _count(self, entry: Entry, name: str, before: Mapping[str, Entry | None]) -> bool:
        """Let an entry count under a name, unless another one has its UID; whether it does."""
        now = entry.named(name)
        admitted, fault = self._classes.admitted(now.pod)
        if fault is not None:
            return self._reject(entry, fault, before.get(now.pod.uid))
        if admitted is not now.pod:
            now = replace(now, pod=admitted)
        first = self.entries.get(now.pod.uid)
        if first is not None:
            message = f"{now.pod.uid} is also the UID of {first.pod.key}, in {first.file}"
            hint = "give each pod a unique UID, or none: qoslet derives one"
            row = Problem("error", f"{now.pod.where}: metadata.uid", message, hint)
            self._files[entry.place[0]].refused[entry.place] = row
            return False
        if now is not entry:
            self._renamed[entry.place] = now
        earlier = before.get(now.pod.uid)
        self.entries[now.pod.uid] = earlier if earlier == now else now
        return True

    def _reject(self, entry: Entry, fault: BadInput, earlier: Entry | None) -> bool:
        """Leave an entry as it counted, if it did: admission rejects what it is now."""
        hint = fault.hint if earlier is None else f"{fault.hint}; the pod keeps running unchanged"
        row = Problem("error", fault.where, fault.message, hint)
        self._files[entry.place[0]].refused[entry.place] = row
        if earlier is None or earlier.place != entry.place:
            return False
        self.entries[earlier.pod.uid] = self._renamed[entry.place] = earlier
        return True

    def _refusal(self, entry: Entry, objects: Mapping[Claim | str, Entry]) -> Problem | None:
        """Why an entry does not count, given the objects before it that do."""
        pod = entry.pod
        reason = self._left_out.get(entry.workload) if entry.workload else None
        if reason:
            return Problem("info", pod.where, reason, "")
        first = objects.get(entry.identity)
        if first is not None:
            message = f"{entry.keys[0]} is also in {first.file}, which takes precedence"
            return Problem("error", f"{pod.where}: metadata.name", message, _NEXT)
        return None

    def _note_problems(self, order: FileOrder) -> None:
        """Record whether a file has problems."""
        file = self._files.get(order)
        telling = file is not None and (
            file.rows
            or file.faults
            or file.refused
            or self.config.has(order)
            or self._classes.has(order)
        )
        (self._telling.add if telling else self._telling.discard)(order)


_NEXT = "names are unique in a namespace: remove one of them"
