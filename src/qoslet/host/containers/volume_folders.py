"""Names in the folders that hold volumes: pods below the state folder, volumes below pods."""

from __future__ import annotations

from qoslet.errors import CannotDo
from qoslet.host.linux.openat import file_name


def path_component(name: str) -> str:
    """``name`` as one component of a path. Raises ``CannotDo``."""
    try:
        return file_name(name)
    except ValueError as error:
        raise CannotDo(f"{error}", where="volumes") from None
