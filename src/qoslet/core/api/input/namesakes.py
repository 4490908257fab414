"""Names for the pods of different objects that would have one name.

A template counts as a pod with its owner's name, and a ``generateName`` without what a cluster adds,
so a Deployment and a StatefulSet ``web`` meet. The pod of one of them keeps the name; the others get
names that depend on their own object, not on the order of the input.

Source: pkg/controller/statefulset getPodName (``NAME-ORDINAL``); k8s.io/apiserver
storage/names generate.go (five letters behind a generateName), k8s.io/apimachinery util/rand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from qoslet.core.api.ids import generated_uid
from qoslet.core.api.owners import Claim
from qoslet.core.api.pod import Pod

_TAGS = {
    "Deployment": "deploy",
    "DaemonSet": "ds",
    "ReplicaSet": "rs",
    "ReplicationController": "rc",
    "Job": "job",
    "CronJob": "cj",
    "PodTemplate": "podtemplate",
    "StatefulSet": "sts",
}
"""Kinds by who keeps a name, with kubectl's short name. A StatefulSet's pod has another in a cluster."""

_RANKS = {"Pod": 0, **{kind: rank for rank, kind in enumerate(_TAGS, 1)}}
_CUSTOM = _RANKS["StatefulSet"] - 0.5
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_NAME_MAX = 253
_TAG_MAX = 20


def precedence(claim: Claim) -> tuple[object, ...]:
    """Sorts those of one name: the first keeps it."""
    rank: float = _CUSTOM if claim.group else _RANKS.get(claim.kind, _CUSTOM)
    if claim.kind == "StatefulSet" and claim.copy and not claim.group:
        rank = 0.5
    made = claim.number >= 0
    key = claim.namespace, claim.name, claim.copy
    return made, rank, claim.kind, claim.group, claim.file, claim.number, *key


def alternative(claim: Claim) -> str:
    """The name that tells the kind, or of a ``generateName`` the number."""
    if claim.number > 0:
        return _with(claim, f"{claim.number + 1}")
    if claim.kind == "Pod" and not claim.group:
        return _with(claim, _letters(claim, ""))
    if claim.kind == "StatefulSet" and not (claim.copy or claim.group or claim.number >= 0):
        return _with(claim, str(claim.first))
    tag = None if claim.group else _TAGS.get(claim.kind)
    plain = "".join(
        letter for letter in claim.kind.lower() if letter.isascii() and letter.isalnum()
    )
    return _with(claim, tag or plain[:_TAG_MAX] or _letters(claim, ""))


def names(claim: Claim) -> Iterator[str]:
    """All other names, the best first."""
    yield alternative(claim)
    for attempt in ("", *map(str, range(1, 100))):
        yield _with(claim, _letters(claim, attempt))


def _letters(claim: Claim, attempt: str) -> str:
    file = claim.file if attempt else claim.file.rpartition("/")[2]
    text = f"{claim.kind}.{claim.group} {claim.name} {file} {claim.number} {attempt}"
    digits = generated_uid(claim.namespace, text).replace("-", "")
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in bytes.fromhex(digits)[:5])


def _with(claim: Claim, tag: str) -> str:
    end = f"-{tag}{claim.copy}"
    return claim.name[: _NAME_MAX - len(end)].rstrip("-.") + end


def claim_for(pod: Pod, claims: Mapping[str, Claim]) -> Claim:
    """The claim that is recorded, else that of a Pod with a name."""
    return claims.get(pod.uid) or _of_pod(pod)


def _of_pod(pod: Pod) -> Claim:
    return Claim(pod.namespace, pod.name, "Pod")


def free_name(claim: Claim, is_free: Callable[[str, str], bool]) -> str:
    """The first of the other names that is free; ``is_free`` is asked for ``namespace/name`` and the
    UID that it would have."""
    found = alternative(claim)
    for found in names(claim):
        if is_free(f"{claim.namespace}/{found}", generated_uid(claim.namespace, found)):
            break
    return found


def named(pod: Pod, name: str) -> Pod:
    """The pod under a name, with the UID that goes with it unless its document has one."""
    uid = generated_uid(pod.namespace, name) if pod.uid_from == "generated" else pod.uid
    return pod if (pod.name, pod.uid) == (name, uid) else replace(pod, name=name, uid=uid)


class Namesakes:
    """The pods of an input that wait for a name. Until ``settle`` they have a UID of no pod."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Claim]] = {}

    def add(self, pod: Pod, claim: Claim | None, first: Claim | None) -> Pod | None:
        """The pod as it waits; None where ``first``, which has the name, or one that waits is the
        same object. A Pod with a name needs no claim."""
        claim = claim or _of_pod(pod)
        others = self._waiting.setdefault(claim.wanted, [])
        same = claim.identity
        if same in ((first or _of_pod(pod)).identity, *(other.identity for other in others)):
            return None
        others.append(claim)
        uid = f"{claim.wanted}#{len(others)}" if pod.uid_from == "generated" else pod.uid
        return replace(pod, uid=uid)

    def settle(self, pods: Sequence[Pod], claims: Mapping[str, Claim]) -> dict[str, Pod]:
        """The pods that meet in a name, each under its own, by the UID that it has in ``pods``."""
        keys = {pod.key for pod in pods}
        uids = {pod.uid for pod in pods}
        meeting = [pod for pod in pods if self._waiting.get(pod.key)]
        meeting.sort(key=lambda pod: precedence(claim_for(pod, claims)))
        made: dict[str, Pod] = {}
        kept: set[str] = set()
        for pod in meeting:
            if pod.key not in kept:
                kept.add(pod.key)
                made[pod.uid] = named(pod, pod.name)
        for pod in meeting:
            if pod.uid not in made:
                claim = claim_for(pod, claims)
                name = free_name(claim, lambda key, uid: key not in keys and uid not in uids)
                made[pod.uid] = named(pod, name)
                keys.add(made[pod.uid].key)
        return made
