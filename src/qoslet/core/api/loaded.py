"""What documents hold: the pods, each under a name and UID of its own, and what is to be said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, json

from qoslet.core.api.documents import Document, Spot, run_document
from qoslet.core.api.owners import Claim, Owners, Workload
from qoslet.core.api.pod import Pod, PodSequence
from qoslet.core.api.schema import DECODE_ERRORS, Metadata
from qoslet.core.problem import Problem
from qoslet.errors import BadInput, FaultCode

if TYPE_CHECKING:
    from qoslet.core.api.config.objects import ConfigObject
    from qoslet.core.api.input.namesakes import Namesakes
    from qoslet.core.api.platform.runtime_class import RuntimeClass

FAULTS_KEPT = 1000
"""Faults that are kept; more are only counted, whatever the input holds."""
_LOOKED_AT = 256 * 1024
"""Bytes of a file up to which keys that occur twice are looked for."""


def _may_repeat_keys(data: bytes) -> bool:
    """Whether the JSON text has more keys than the objects that are decoded from it. Each key has a quote
    before its colon; a text that has one, too, is taken for one."""
    try:
        count, waiting = 0, [json.decode(data)]
    except DECODE_ERRORS:
        # a number that no decoder keeps, where nobody reads it
        return True
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            count += len(value)
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return data.translate(None, b" \t\r\n").count(b'":') != count


def claim_of(
    kind: str, group: str, meta: Metadata | None, pod: Pod, spot: Spot, numbers: dict[str, int]
) -> Claim:
    """The claim of an object; ``numbers`` counts those with a ``generateName``."""
    if meta is not None and meta.name:
        return Claim(pod.namespace, pod.name, kind, group)
    file = spot.document.file
    key = f"{file}\0{group}\0{kind}\0{pod.key}"
    number = numbers.get(key, 0)
    numbers[key] = number + 1
    return Claim(pod.namespace, pod.name, kind, group, file=file, number=number)


class Loaded(PodSequence, Struct):
    """All pods in the order of their documents, and the problems of the documents.

    ``sources`` counts the documents that may hold pods, an empty list of them included;
    ``more_faults`` the faults beyond ``FAULTS_KEPT``. ``raw`` holds ``{"metadata", "spec"}`` of
    each pod by its UID, a template's merged with its owner's name, when the options ask for it, and
    ``statuses`` those of pods;
    ``templates``, by UID, whose templates pods stand for; ``owners`` who made what; ``files`` have a
    document; ``nodes`` are those of the pods that have not ended, with their number; ``config``
    the ConfigMaps and Secrets; ``runtime_classes`` are by name;
    ``claims``, by UID, are those of all but Pods with a name; ``ended`` the pods that were left out
    since all their containers have, for good.
    """

    pods: list[Pod]
    problems: list[Problem]
    faults: list[BadInput]
    sources: int = 0
    more_faults: int = 0
    raw: dict[str, Any] = {}
    statuses: dict[str, Any] = {}
    templates: dict[str, Workload] = {}
    owners: Owners = field(default_factory=Owners)
    files: set[str] = set()
    nodes: dict[str, int] = {}
    config: list[ConfigObject] = []
    runtime_classes: dict[str, RuntimeClass] = {}
    claims: dict[str, Claim] = {}
    ended: list[Pod] = []

    def begin(self, document: Document) -> None:
        """A document of the input, with what its text says twice: of a manifest, not of the output for
        a whole cluster."""
        self.files.add(document.file)
        whole = document.data
        if not isinstance(whole, memoryview) or memoryview(whole.obj).nbytes > _LOOKED_AT:
            return
        if _may_repeat_keys(bytes(whole)):
            # most programs start without it
            from qoslet.core.api.repeated_keys import repeated_keys

            self.problems += repeated_keys(bytes(whole), document.where)

    def add_fault(self, fault: BadInput) -> None:
        """Keep a fault, or count it when there are plenty."""
        if len(self.faults) < FAULTS_KEPT:
            self.faults.append(fault)
        else:
            self.more_faults += 1

    def leave_out(self, pod: Pod, reason: str) -> None:
        """Take a pod that uses nothing of the node."""
        self.problems.append(Problem("info", pod.where, reason, ""))
        if pod.has_ended:
            self.ended.append(pod)

    def rename(self, made: Mapping[str, Pod]) -> None:
        """Put pods in the places of those that have the UIDs of ``made``."""

        def uid(known: str) -> str:
            return made[known].uid if known in made else known

        self.pods = [made.get(pod.uid, pod) for pod in self.pods]
        self.raw = {
            uid(known): run_document(raw, made[known], raw) if known in made else raw
            for known, raw in self.raw.items()
        }
        self.templates = {uid(known): workload for known, workload in self.templates.items()}
        self.claims = {uid(known): claim for known, claim in self.claims.items()}


class UniquePods:
    """The pods of an input by name and UID. One that is being deleted leaves its name to the next: a
    kubelet may still run it, and lists both."""

    def __init__(self) -> None:
        self._names: dict[str, Spot] = {}
        self._uids: dict[str, tuple[str, Spot]] = {}
        self._claims: dict[str, Claim] = {}
        self._namesakes: Namesakes | None = None

    def add(self, pod: Pod, spot: Spot, claim: Claim | None = None) -> Pod | BadInput:
        """The pod as it is to be kept, which waits for a name of its own where another object has
        its; the fault of one that is there already, or whose UID another one has."""
        key = pod.key
        first = spot if pod.is_leaving else self._names.setdefault(key, spot)
        if first is spot:
            if claim is not None:
                self._claims[key] = claim
        elif waiting := self._wait(pod, claim):
            pod = waiting
        else:
            message = f"{key} occurs twice in the input: also at {first.where}"
            hint = (
                "names are unique in a namespace; a template counts as a pod with its owner's name"
            )
            where = f"{pod.where} ({spot.where}): metadata.name"
            return BadInput(message, where=where, hint=hint, fault_code=FaultCode.SAME_OBJECT)
        other, place = self._uids.setdefault(pod.uid, (key, spot))
        if place is spot:
            return pod
        message = f"{pod.uid} is also the UID of {other}, at {place.where}"
        hint = "give each pod a unique UID, or none: qoslet derives one"
        return BadInput(message, where=f"{pod.where}: metadata.uid", hint=hint)

    def _wait(self, pod: Pod, claim: Claim | None) -> Pod | None:
        """The pod as it waits; None where its object is there already."""
        first = self._claims.get(pod.key)
        if claim is None and first is None:
            return None
        from qoslet.core.api.input.namesakes import Namesakes

        self._namesakes = self._namesakes or Namesakes()
        return self._namesakes.add(pod, claim, first)

    def settle(self, loaded: Loaded) -> None:
        """Give those that wait their names."""
        if self._namesakes is not None:
            loaded.rename(self._namesakes.settle(loaded.pods, loaded.claims))
