"""What is given back is taken out of what the runtime keeps of containers, too: a resize would bring it
back."""

from __future__ import annotations

import pytest

from tests.agent.guest.beside import policy
from tests.agent.nri.world import BEGINS, Once, World


def test_the_runtime_keeps_nothing_of_what_is_given_back() -> None:
    world = World("a", "b")
    world.loop.sync()
    world.create("a")
    world.container("b")
    world.loop.run(Once(1))
    assert world.specs.given == {"a0": BEGINS}
    assert world.files() == {}


def test_a_container_that_is_not_started_yet_begins_without_values() -> None:
    world = World("a")
    world.loop.sync()
    world.create("a", started=False)
    world.loop.run(Once(0))
    assert world.specs.given == {"a0": BEGINS}
    assert world.written == []
    assert world.files() == {}


def test_no_container_gets_values_after_they_are_given_back() -> None:
    world = World("a")
    world.loop.sync()
    close = world.link.close

    def closing() -> None:
        """A last callback, which the link waits for."""
        world.create("a")
        close()

    world.link.close = closing  # type: ignore[method-assign]
    world.loop.run(Once(0))
    assert world.values("a0") == BEGINS
    assert world.files() == {}


def test_a_policy_of_less_leaves_nothing_with_the_runtime() -> None:
    world = World("a")
    world.loop.sync()
    world.create("a")
    policy(world.source, mode="watch")
    world.loop.sync()
    assert world.specs.given == {"a0": BEGINS}
    world.specs.given.clear()
    world.loop.sync()
    assert world.specs.given == {}, "once"


def test_with_the_systemd_driver_the_runtime_gives_values_back() -> None:
    world = World("a", writes=False)
    world.loop.sync()
    world.create("a")
    world.loop.run(Once(0))
    assert world.written == []
    assert world.specs.given == {"a0": BEGINS}
    assert world.files() == {}


@pytest.mark.parametrize("writes", [False, True])
def test_a_runtime_that_cannot_be_asked_is_said_once(writes: bool) -> None:
    world = World("a", writes=writes)
    world.loop.sync()
    for number in range(3):
        world.create("a", number)
    world.specs.wrong = "no kubelet runs on this machine"
    policy(world.source, mode="watch")
    world.loop.sync()
    world.loop.sync()
    lines = [line for line in world.surface.lines if "no kubelet" in line]
    assert len(lines) == 1
    assert lines[0].startswith("values of 3 containers come back")
    assert len(world.files()) == (0 if writes else 9)
