"""Which container's logs ``qoslet logs`` shows: of a pod, or of one that a workload has made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from qoslet.app import inspect
from qoslet.core.workload.cri_log import path_of
from qoslet.errors import CannotDo
from qoslet.render.text.streams import note

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from qoslet.app.inspect import LogLocation
    from qoslet.core.api.input.kubectl_names import Target


def location_of(args: argparse.Namespace, folder: str) -> LogLocation:
    """The logs that are meant, below the state folder of the root. Raises CannotDo."""
    found = _all_places(folder)
    _split_namespace(args, found)
    pod, _, container = args.pod.partition("/")
    container = args.container or container
    if not any(_is_of(place, pod) for place in found):
        from qoslet.core.api.input.kubectl_names import is_kubectls, target_of

        target = target_of(args.pod)
        if target is not None and target.kind != "pod":
            places = _of_workload(args, target, found, is_needed=is_kubectls(target))
            if places:
                return _container(places, args.container or target.container)
        elif target is not None:
            pod, container = target.name, args.container or target.container
    named = [one for one in found if _is_of(one, pod) and args.namespace in (None, one.namespace)]
    if not named:
        known = ", ".join(dict.fromkeys(one.pod for one in found)) or "none"
        raise CannotDo(f"pod {pod} has no logs", hint=f"pods with logs: {known}")
    _check_namespaces(named, f"a pod {pod}")
    newest = max(named, key=lambda one: one.age())
    return _container([one for one in named if one.uid == newest.uid], container)


def _split_namespace(args: argparse.Namespace, found: Sequence[LogLocation]) -> None:
    """Take ``NAMESPACE/POD[/CONTAINER]``, as the agent's log names them, for ``-n`` and the rest; a
    pod that is called like the namespace goes first."""
    space, slash, rest = args.pod.partition("/")
    pod = rest.partition("/")[0]
    if not slash or args.namespace is not None or any(_is_of(one, space) for one in found):
        return
    if any(one.namespace == space and _is_of(one, pod) for one in found):
        args.namespace, args.pod = space, rest


def _all_places(folder: str) -> list[LogLocation]:
    """All containers with logs. Raises CannotDo."""
    try:
        os.listdir(folder)
    except FileNotFoundError as error:
        absent = CannotDo(
            "no agent is running", where=folder, hint="start it with: qoslet run DIR --keep"
        )
        raise inspect.with_other_agents(absent) from error
    except PermissionError as error:
        hint = "run as root, or as that user"
        raise CannotDo("the agent belongs to another user", where=folder, hint=hint) from error
    except OSError as error:
        raise CannotDo(f"cannot be read: {error.strerror}", where=folder) from error
    return inspect.log_places(folder)


def _of_workload(
    args: argparse.Namespace, target: Target, found: Sequence[LogLocation], *, is_needed: bool
) -> list[LogLocation]:
    """The logs of the workload's first pod that has some; only the agent knows which pods are of
    it. Where there are none: raises CannotDo if the kind ``is_needed``, one of kubectl's."""
    called = f"{target.kind}/{target.name}"
    try:
        items = inspect.pod_states(args.cgroup_root).get("items", ())
    except CannotDo as error:
        if not is_needed:
            return []
        hint = f"give the name of a pod; {error.hint}"
        message = f"{error.message}: the pods of {called} are not known"
        raise CannotDo(message, where=error.where, hint=hint) from error
    uids = {item["uid"] for item in items if is_of(item, target)}
    named = [one for one in found if one.uid in uids and args.namespace in (None, one.namespace)]
    if not named and is_needed:
        known = ", ".join(dict.fromkeys(one.pod for one in found)) or "none"
        raise CannotDo(f"no pod of {called} has logs", hint=f"pods with logs: {known}")
    _check_namespaces(named, called)
    names = list(dict.fromkeys(one.pod for one in named))
    if len(names) > 1:
        note(f"showing pod {names[0]} of: {', '.join(names)}")
    return [one for one in named if one.uid == named[0].uid]


def is_of(item: dict[str, Any], target: Target) -> bool:
    """Whether a row of the agent's answer is the pod that ``target`` names, or one of its pods."""
    maker = item.get("controller")
    pair = (maker["kind"], maker["name"]) if isinstance(maker, dict) else None
    return target.is_of(str(item.get("name")), pair)


def _check_namespaces(places: Sequence[LogLocation], called: str) -> None:
    """Raises CannotDo for logs of several namespaces."""
    spaces = sorted({place.namespace for place in places})
    if len(spaces) > 1:
        message = f"several namespaces have {called}: {', '.join(spaces)}"
        raise CannotDo(message, hint="choose with -n")


def _is_of(place: LogLocation, pod: str) -> bool:
    """Whether logs are those of a pod of this name; a long name is cut in their path."""
    if not pod.startswith(place.pod):
        return False
    whole = path_of(f"{place.namespace}/{pod}", place.uid)
    return whole == path_of(f"{place.namespace}/{place.pod}", place.uid)


def _container(places: Sequence[LogLocation], name: str) -> LogLocation:
    """One container of a pod. Raises CannotDo."""
    known = ", ".join(one.container for one in places)
    for one in places:
        if name == one.container and one.runs():
            return one
    if name:
        raise CannotDo(
            f"pod {places[0].pod} has no logs of container {name}", hint=f"containers: {known}"
        )
    if len(places) > 1:
        note(f"showing container {places[0].container} of: {known}")
    return places[0]
