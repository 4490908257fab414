"""What a policy would have done on a recording, as a document: ``kind: Replay`` of ``qoslet/v1``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.core.recording.replay.policy import changed
from qoslet.render.documents import API_VERSION, Document
from qoslet.render.documents.timestamps import moment

if TYPE_CHECKING:
    from qoslet.core.recording.recording import Recording
    from qoslet.core.recording.replay.policy import ReplayPolicy
    from qoslet.core.recording.replay.result import (
        ReplayDecision,
        ReplayKill,
        ReplayResult,
        ReplayStall,
    )


def replay_document(recording: Recording, policy: ReplayPolicy, result: ReplayResult) -> Document:
    """Every decision, kill and stall."""
    last = len(recording) - 1
    return {
        "apiVersion": API_VERSION,
        "kind": "Replay",
        "node": dict(recording.session(last).node),
        "policy": {"mode": policy.mode, "set": changed(policy)},
        "begin": moment(recording.wall(0)),
        "end": moment(recording.wall(last)),
        "seconds": result.seconds,
        "moments": result.moments,
        "intervalSeconds": result.interval,
        "falseKills": result.false_kills,
        "kills": [_kill(one) for one in result.kills],
        "stalls": [_stall(one) for one in result.stalls],
        "decisions": [_decision(one) for one in result.decisions],
    }


def _kill(one: ReplayKill) -> Document:
    return {
        "time": moment(one.wall),
        "atSeconds": one.seconds,
        "cause": one.cause,
        "path": one.path,
        "pod": one.pod or None,
        "container": one.container or None,
        "because": one.because,
        "outcome": one.outcome,
        "outcomeAfterSeconds": one.after,
        "isFalse": one.is_false,
    }


def _stall(one: ReplayStall) -> Document:
    return {
        "path": one.path,
        "pod": one.pod or None,
        "container": one.container or None,
        "beginSeconds": round(one.begin, 3),
        "endSeconds": None if one.end is None else round(one.end, 3),
        "reliefSeconds": one.relief,
        "relievedBy": one.relieved_by or None,
    }


def _decision(one: ReplayDecision) -> Document:
    return {
        "time": moment(one.wall),
        "atSeconds": one.seconds,
        "cause": one.cause,
        "path": one.path or None,
        "pod": one.pod or None,
        "container": one.container or None,
        "mode": one.mode,
        "answer": one.answer,
        "value": one.value,
        "because": one.because,
        "numbers": one.numbers,
    }
