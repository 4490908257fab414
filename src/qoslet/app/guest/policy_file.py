"""The policy of a guest: flags, and a file that is read again when it changes."""

from __future__ import annotations

import os
from collections.abc import Sequence

from qoslet.core.api.documents import plain_value
from qoslet.core.guest.policy import GuestPolicy
from qoslet.core.guest.policy_document import PolicyFlags, policy_of, with_flags
from qoslet.errors import BadInput, QosletError
from qoslet.host.files.manifests import documents_of
from qoslet.host.files.watched_node import NodeFiles


class PolicyFile:
    """``path`` None: flags alone. ``clock`` gives monotonic seconds. Raises BadInput where the file
    cannot be read at first."""

    def __init__(self, path: str | None, flags: PolicyFlags, files: NodeFiles) -> None:
        self._path = path
        self._flags = flags
        self._files = files
        self.policy = self._read()
        self.fault = ""

    def _read(self) -> GuestPolicy:
        if self._path is None:
            return with_flags(GuestPolicy(), self._flags)
        return policy_of(*policy_document(self._path, strict=is_strict()), self._flags)

    def current(self) -> GuestPolicy:
        """The policy as the file has it now; while that is bad, as it was last, with ``fault``."""
        if self._files.changed():
            try:
                self.policy, self.fault = self._read(), ""
            except QosletError as error:
                self.fault = f"the policy stays as it was: {error.faults[0]}"
        return self.policy

    def descriptors(self) -> Sequence[int]:
        """Readable when the file may have changed."""
        return self._files.descriptors()


def policy_document(path: str, *, strict: bool) -> tuple[object, str]:
    """The one document of a file, decoded, and its place. Raises BadInput; with ``strict`` also where
    another user can change the file."""
    found = list(documents_of([path], None, strict))
    if len(found) != 1:
        raise BadInput(f"holds {len(found)} documents, must be one AgentPolicy", where=path)
    [document] = found
    if isinstance(document, BadInput):
        raise document
    return plain_value(document.data, document.where), document.where


def is_strict() -> bool:
    """Whether a file that another user can change is not read: as root."""
    return os.geteuid() == 0
