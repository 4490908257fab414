"""Texts that are neither YAML nor JSON, but which users have: what to give instead."""

from __future__ import annotations

import re

from qoslet.errors import BadInput

_FORMATS = (
    (
        rb"\A\s*(?:NAMESPACE +)?NAME +[A-Z]",
        "is a table of kubectl, no document",
        "add -o yaml to the kubectl command",
    ),
    (
        rb"\AName: +\S.*\n(?:.*\n)*?(?:Namespace|Labels|Roles): ",
        "is the output of kubectl describe, no document",
        "use kubectl get with -o yaml",
    ),
    (
        rb"\A(?:\s|#.*\n)*\[+[\w.\"-]+\]+[ \t]*\r?\n",
        "is TOML, no document of Kubernetes",
        "give a node as kubectl get --raw /api/v1/nodes/NAME/proxy/configz prints it",
    ),
    (
        rb"\A(?:MIME-Version|Content-Type):",
        "is user data of several MIME parts",
        "give its part of the type application/node.eks.aws",
    ),
    (rb"\A#!", "is a script, no document", "give what it makes"),
)


def other_format(head: bytes, file: str) -> BadInput | None:
    """The fault of a text that begins with ``head``, where it is of a known other format."""
    for pattern, message, hint in _FORMATS:
        if re.match(pattern, head):
            return BadInput(message, where=file, hint=hint)
    return None
