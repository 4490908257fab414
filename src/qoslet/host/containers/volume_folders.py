"""Names in the folders that hold volumes: pods below the state folder, volumes below pods."""

from __future__ import annotations

import os

from qoslet.errors import CannotDo
from qoslet.host.linux.openat import file_name


def listed(path: str) -> list[str]:
    """The names in a directory, sorted; none where it is gone."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def path_component(name: str) -> str:
    """``name`` as one component of a path. Raises ``CannotDo``."""
    try:
        return file_name(name)
    except ValueError as error:
        raise CannotDo(f"{error}", where="volumes") from None
