"""Whether an API Node is the machine that reads it."""

from __future__ import annotations

from collections.abc import Mapping


def _plain(text: str | None) -> str:
    return (text or "").strip().replace("-", "").lower()


def _named(name: str, host: str | None) -> bool:
    """Whether a node's name is the host's, in full or without its domain.

    Source: kubelet nodeutil GetHostname: the host's name in lower case.
    """
    here, there = (host or "").strip().lower(), name.strip().lower()
    if not here or not there:
        return False
    return here == there or (
        here.partition(".")[0] == there.partition(".")[0] and ("." in here) != ("." in there)
    )


def is_this(there: Mapping[str, str], here: Mapping[str, str]) -> bool:
    """Whether a Node is this machine, each as ``name`` and the ``machineID``, ``systemUUID`` and
    ``bootID`` of nodeInfo, as far as known. A copy of a machine has its machine ID; its system UUID
    and its name are others."""
    pairs = {
        field: (_plain(there.get(field)), _plain(here.get(field)))
        for field in ("machineID", "systemUUID", "bootID")
    }
    known = {field: a == b for field, (a, b) in pairs.items() if a and b}
    if known.get("machineID") is False or known.get("systemUUID") is False:
        return False
    if known.get("systemUUID") or known.get("bootID"):
        return True
    return _named(there.get("name", ""), here.get("name"))
