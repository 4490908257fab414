"""What is said when the configuration is read again."""

from __future__ import annotations

from qoslet.app.agent.reload import STAYS, Reloading

GONE = f"cannot reload the configuration: n.yaml: does not exist; {STAYS}"
DONE = "configuration reloaded"


def test_a_fault_is_told_once_and_who_asks_is_answered() -> None:
    read = iter([GONE, GONE, GONE, DONE, DONE, GONE])
    asked = iter([False, True, False])
    said: list[str] = []
    reloading = Reloading(lambda: next(read), said.append, lambda: next(asked))
    for _ in range(6):
        reloading()
    again = f"configuration not reloaded: the fault is the same; {STAYS}"
    assert said == [GONE, again, DONE, DONE, GONE]
