"""Which of the pods that want one name or UID have it already: a newcomer ends nothing that runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from qoslet.core.api.input.entry import Entry, Place


def holders(entries: Iterable[Entry], running: Callable[[str], str]) -> set[Place]:
    """Of pods of different names that want one UID, and of different UIDs that want one name, the
    one that runs with it. ``running`` names the pod that runs with a UID, empty for none."""
    names: dict[str, dict[str, Place]] = {}
    uids: dict[str, dict[str, Place]] = {}
    for entry in sorted(entries, key=lambda one: one.place, reverse=True):
        names.setdefault(entry.pod.uid, {})[entry.pod.key] = entry.place
        uids.setdefault(entry.pod.key, {})[entry.pod.uid] = entry.place
    found: set[Place] = set()
    for uid, places in names.items():
        if len(places) > 1 and (key := running(uid)) in places:
            found.add(places[key])
    for key, places in uids.items():
        if len(places) > 1:
            found |= {place for uid, place in places.items() if running(uid) == key}
    return found


def incumbents(
    entries: Collection[Entry],
    before: Mapping[str, Entry | None],
    files: Mapping[str, str],
    running: Callable[[str], str],
) -> set[Place]:
    """Of pods of one name and UID, the one that runs: that of the file that an earlier agent started it
    from (``files``, by UID), else the one that counted ``before``."""
    if files:
        # under other paths, such as absolute ones, the file's name is what is left
        exact = {one.pod.uid for one in entries if files.get(one.pod.uid) == one.file}
        return {
            one.place
            for one in entries
            if (file := files.get(one.pod.uid)) is not None
            and (one.file == file or (one.pod.uid not in exact and _name(one.file) == _name(file)))
        }
    return {
        one.place
        for one in entries
        if (held := before.get(one.pod.uid)) is not None
        and held.place == one.place
        and running(one.pod.uid) == one.pod.key
    }


def _name(file: str) -> str:
    return file.rpartition("/")[2]
