"""Pods as kubectl names them: ``pod/web``, ``deployment/web``, ``sts/web``.

Source: kubectl api-resources; pkg/controller/deployment/util (a ReplicaSet has the name of its
Deployment and a hash), k8s.io/apimachinery util/rand SafeEncodeString (the letters of the hash);
pkg/controller/cronjob getJobName (a Job has the name of its CronJob and the minute).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from qoslet.core.api.pod import Pod

_KINDS = {
    "pod": "pod pods po",
    "deployment": "deployment deployments deploy",
    "statefulset": "statefulset statefulsets sts",
    "daemonset": "daemonset daemonsets ds",
    "replicaset": "replicaset replicasets rs",
    "replicationcontroller": "replicationcontroller replicationcontrollers rc",
    "job": "job jobs",
    "cronjob": "cronjob cronjobs cj",
    "podtemplate": "podtemplate podtemplates",
}
_WORDS = {word: kind for kind, words in _KINDS.items() for word in words.split()}

_HASHED = re.compile(r"(.+)-[bcdfghjklmnpqrstvwxz2456789]{1,10}")
_TIMED = re.compile(r"(.+)-[0-9]{6,12}")


class Target(Struct, frozen=True):
    """``KIND/NAME[/CONTAINER]``; ``kind`` in lower case and in the singular where kubectl has it."""

    kind: str
    name: str
    container: str = ""

    def names(self, pod: Pod) -> bool:
        """Whether the pod is that one, or one of that workload."""
        return self.is_of(pod.name, pod.controller)

    def is_of(self, pod: str, controller: tuple[str, str] | None) -> bool:
        """The same for a pod's name and its controller's kind and name."""
        if self.kind == "pod":
            return self.name == pod
        return any(
            name == self.name and kind in (self.kind, self.kind.removesuffix("s"))
            for kind, name in _above(controller)
        )


def target_of(text: str) -> Target | None:
    """What kubectl would read ``TYPE[.GROUP]/NAME`` as, with a container behind it."""
    word, slash, rest = text.partition("/")
    name, _, container = rest.partition("/")
    if not (slash and word and name) or "/" in container:
        return None
    plain = word.partition(".")[0].lower()
    return Target(_WORDS.get(plain, plain), name, container)


def is_kubectls(target: Target) -> bool:
    """Whether kubectl itself knows the kind."""
    return target.kind in _KINDS


def _above(controller: tuple[str, str] | None) -> Iterator[tuple[str, str]]:
    """The workloads of a pod: its controller, and whose that is by its name."""
    if controller is None:
        return
    kind, name = controller[0].lower(), controller[1]
    yield kind, name
    if kind == "replicaset" and (match := _HASHED.fullmatch(name)):
        yield "deployment", match[1]
        yield "rollout", match[1]
    elif kind == "job" and (match := _TIMED.fullmatch(name)):
        yield "cronjob", match[1]
