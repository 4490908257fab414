"""Runs a guard policy over a recording. Pure: a recording and a policy in, what would have been out."""

from __future__ import annotations

from qoslet.core.recording.recording import Recording
from qoslet.core.recording.replay.kills import Kills
from qoslet.core.recording.replay.policy import ReplayPolicy
from qoslet.core.recording.replay.result import ReplayResult
from qoslet.core.recording.replay.scene import scene_of
from qoslet.core.recording.replay.shortages import ShortageReplay
from qoslet.core.recording.replay.stalls import StallReplay


def replay(recording: Recording, policy: ReplayPolicy) -> ReplayResult:
    """What the policy would have done. Raises BadInput where the recording is damaged."""
    kills = Kills()
    stalls, shortages = StallReplay(policy, kills), ShortageReplay(policy, kills)
    interval = 0.0
    for number in range(len(recording)):
        session = recording.session(number)
        interval = max(interval, session.interval)
        scene = scene_of(recording.moment(number), recording.seconds[number], session)
        if scene is None:
            continue
        kills.follow(scene)
        stalls.consider(scene)
        if policy.mode != "off" or any(row.guard not in ("", "off") for row in scene.rows.values()):
            shortages.consider(scene)
    decisions = sorted([*stalls.decisions, *shortages.decisions], key=lambda one: one.seconds)
    return ReplayResult(
        moments=len(recording),
        seconds=recording.seconds[-1] if len(recording) else 0.0,
        interval=interval,
        decisions=tuple(decisions),
        kills=tuple(kills.rows),
        stalls=tuple(stalls.stalls),
    )
