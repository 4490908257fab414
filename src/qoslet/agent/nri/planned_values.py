"""The values of planned containers, from the thread that plans to the one that answers the runtime."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from qoslet.core.guest.nri_container import NriContainer
from qoslet.core.guest.nri_values import ContainerKey, ContainerValues, is_current
from qoslet.core.guest.policy import GuestPolicy

NO_VALUES: Mapping[ContainerKey, ContainerValues] = {}

WAIT_SECONDS = 0.5
"""How long an answer waits for a plan that knows the container: well below the runtime's 2 s."""
RESIZE_SECONDS = 0.025
"""How long the answer to a resize waits where the loop can write the values afterwards: meanwhile the
runtime creates no container."""


class PlannedValues:
    """``wake`` makes the planning thread read the pods again."""

    def __init__(
        self,
        wake: Callable[[], None],
        wait_seconds: float = WAIT_SECONDS,
        resize_seconds: float = RESIZE_SECONDS,
    ) -> None:
        self.policy = GuestPolicy()
        self.answers_updates = True
        """Whether an answer may change what the kubelet sends: runtimes lose the swap limit then."""
        self.wake = wake
        self.wait_seconds, self.resize_seconds = wait_seconds, resize_seconds
        self._changed = threading.Condition()
        self._found: Mapping[ContainerKey, ContainerValues] = {}
        self._resized: Mapping[ContainerKey, ContainerValues] = {}
        self._asked = self._answered = 0
        self._is_closed = False

    def ask(self) -> int:
        """Have the pods read again; the number of this question."""
        with self._changed:
            self._asked += 1
            asked = self._asked
        self.wake()
        return asked

    def asked(self) -> int:
        """The last question, to be given to ``publish`` with pods that are read after this."""
        with self._changed:
            return self._asked

    def is_asked(self) -> bool:
        """Whether somebody waits for pods that are read again."""
        with self._changed:
            return self._asked > self._answered

    def publish(
        self,
        found: Mapping[ContainerKey, ContainerValues],
        policy: GuestPolicy,
        answered: int,
        resized: Mapping[ContainerKey, ContainerValues] = NO_VALUES,
    ) -> None:
        """What is planned now, and which questions that answers. ``resized`` is planned with resources
        that no status has yet: the kubelet allows a resize before the pods tell so."""
        with self._changed:
            self._found, self._resized = found, resized
            self.policy, self._answered = policy, answered
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody plans any more: nobody waits."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def known(self, container: NriContainer) -> ContainerValues | None:
        """What is planned for a container, as far as it is known now: for the resources that it has,
        if they are known."""
        key = container.uid, container.name
        found, resized = self._found.get(key), self._resized.get(key)
        if resized is None or (found is not None and is_current(found, container)):
            return found
        return resized if is_current(resized, container) else found

    def current(self, container: NriContainer, seconds: float) -> ContainerValues | None:
        """What is planned for a container with the resources that it has; it is waited for, so many
        ``seconds`` at most."""
        found = self._current(container)
        if found is None:
            asked = self.ask()
            with self._changed:
                # pods that are just being planned may be new enough
                self._changed.wait_for(
                    lambda: (
                        self._answered >= asked
                        or self._is_closed
                        or self._current(container) is not None
                    ),
                    seconds,
                )
            found = self._current(container)
        return found

    def _current(self, container: NriContainer) -> ContainerValues | None:
        """What is planned for the resources that a container has, if that is known."""
        found = self.known(container)
        return found if found is not None and is_current(found, container) else None
