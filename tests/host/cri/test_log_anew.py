"""Logs that are begun anew while their pod goes."""

from __future__ import annotations

from pathlib import Path

import grpc

from qoslet.host.containers.log_files import LogLimits
from tests.host.cri.server import CriServer, No
from tests.host.cri.test_runtime import Hand, server, spec_of

__all__ = ["server"]


def test_a_pod_that_goes_meanwhile_does_not_end_the_watch(
    server: CriServer, tmp_path: Path
) -> None:
    hand = Hand(server, tmp_path, limits=LogLimits(size=100, files=2))
    server.events = False
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    server.once["ReopenContainerLog"] = [No(grpc.StatusCode.NOT_FOUND, "gone")]
    server.held = "ReopenContainerLog"
    log = Path(hand.state("app").log)
    log.write_text("x" * 101)
    hand.until(lambda: not log.exists())
    hand.runtime.stop("uid", 1.0)
    hand.until(lambda: hand.runtime.list_pods()["uid"].ended)
    hand.runtime.remove_pod("uid")
    hand.until(lambda: not log.parent.exists())
    looked, server.held = len(server.asked), ""
    hand.until(lambda: "ListContainers" in [one for one, _ in server.asked[looked:]])
    assert hand.runtime.notes[-1].endswith(": gone")
    hand.runtime.close()
