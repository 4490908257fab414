"""Flags of a kubelet as a file has them: one a line, as a command, or in variables of a shell.

Source: kubeadm /var/lib/kubelet/kubeadm-flags.env, /etc/default/kubelet, /etc/sysconfig/kubelet;
MicroK8s /var/snap/microk8s/current/args/kubelet.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

PLAIN = "arguments"
"""The name of flags that stand in no variable."""

_VARIABLE = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)
_BEGINS = re.compile(
    rb"(?:\s|#[^\n]*\n)*(?:export +)?(?:[A-Z][A-Z0-9_]*=[\"']?|(?:[\w.-]*/)*kubelet[ \t]+)?--[a-z]"
)


def is_flags(head: bytes) -> bool:
    """Whether a text that begins with ``head`` is flags of a program."""
    return _BEGINS.match(head) is not None


def flags_document(text: str) -> dict[str, list[str]] | None:
    """The words of such a text by the variable that they stand in; None where quotes are open."""
    found: dict[str, list[str]] = {}
    try:
        for word in shlex.split(text, comments=True):
            variable = _VARIABLE.fullmatch(word)
            if variable is None:
                found.setdefault(PLAIN, []).append(word)
            else:
                found.setdefault(variable[1], []).extend(shlex.split(variable[2]))
    except ValueError:
        return None
    return found


def flags_of(given: Mapping[str, Any]) -> str | None:
    """The field of a document that ``flags_document`` made; None for another. Of several the last
    that has flags."""
    named = [name for name in given if name == PLAIN or _VARIABLE.fullmatch(f"{name}=")]
    if len(named) != len(given):
        return None
    lists = [name for name in named if isinstance(given[name], list) and given[name]]
    return lists[-1] if lists else None
