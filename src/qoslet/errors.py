"""Every failure that a user can meet, as one line: what, where, and what to do.

Only ``cli`` turns these into text and an exit code; everything else raises them.
"""

from __future__ import annotations

from enum import Enum
from errno import EAGAIN, EDQUOT, EFBIG, EIO, EMFILE, ENFILE, ENOMEM, ENOSPC, EROFS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_OK = 0
EXIT_NO = 1
"""The answer is no: the plan cannot stand, drift was found."""
EXIT_BAD_INPUT = 2
"""A document or a flag is invalid by itself."""
EXIT_CANNOT = 3
"""This machine cannot do it."""
EXIT_PIPE = 141
"""Nobody reads standard output any more."""

SHORTAGES = (EMFILE, ENFILE, ENOMEM)
"""Errors of a machine that is short of descriptors or memory for a while: nothing is known by them."""

MACHINE_HINTS = {
    EMFILE: "raise the limit of open files: ulimit -n 1024, or LimitNOFILE= of the unit",
    ENFILE: "the machine has as many files open as it may: raise fs.file-max",
    ENOMEM: "free memory, or raise the limit of this process: ulimit -v, MemoryMax= of the unit",
    EAGAIN: "raise the limit of processes: ulimit -u, TasksMax= of the unit",
    ENOSPC: "the file system is full: free space on it; df shows which",
    EFBIG: "raise the limit of file sizes: ulimit -f unlimited, or LimitFSIZE= of the unit",
    EDQUOT: "this user's disk quota is full: free space, or raise it",
    EROFS: "the file system is read-only: mount it read-write, or choose another directory",
    EIO: "the device failed: see dmesg",
}
"""What to do about an error of the kernel that is the machine's, not the program's."""


class FaultCode(Enum):
    """What code decides by; messages are for people."""

    OTHER = "Other"
    BROKEN_JSON = "BrokenJson"
    """The text is not JSON; it may be YAML."""
    TOO_DEEP = "TooDeep"
    """It is nested deeper than any decoder goes."""
    UNRENDERED = "Unrendered"
    """A template or a part of a chart, which another program makes manifests of."""
    NO_POD = "NoPod"
    """The documents are valid, and none of them holds a pod."""
    SAME_OBJECT = "SameObject"
    """An object is there already."""
    REPLACED = "Replaced"
    """An empty directory is where one with manifests was."""


class QosletError(Exception):
    """A failure with a place and a hint.

    ``message`` says what is wrong, ``where`` names the file, document, field or cgroup path,
    ``hint`` says what to do next, ``fault_code`` is what code decide by; ``exit_code`` is what the program returns for it.
    """

    exit_code = EXIT_CANNOT

    def __init__(
        self,
        message: str,
        *,
        where: str = "",
        hint: str = "",
        fault_code: FaultCode = FaultCode.OTHER,
    ) -> None:
        super().__init__(message)
        self.fault_code = fault_code
        self.message = message
        self.where = where
        self.hint = hint

    @property
    def faults(self) -> Sequence[QosletError]:
        """The failures that it stands for: itself, where it is no collection."""
        return (self,)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f" ({self.hint})" if self.hint else ""
        return f"{place}{self.message}{advice}"


class BadInput(QosletError):
    """One fault of a document or a flag."""

    exit_code = EXIT_BAD_INPUT

    @property
    def faults(self) -> list[BadInput]:
        """Itself, where it is no collection."""
        return [self]


class BadInputs(BadInput):
    """All faults of the input at once; ``faults`` is never empty."""

    def __init__(self, faults: list[BadInput]) -> None:
        super().__init__(faults[0].message, where=faults[0].where, hint=faults[0].hint)
        self._faults = faults

    @property
    def faults(self) -> list[BadInput]:
        """Each of them."""
        return self._faults

    def __str__(self) -> str:
        return "\n".join(str(fault) for fault in self.faults)


class UnknownArgument(BadInput, TypeError):
    """A keyword that a function of the library does not have."""


class CannotDo(QosletError):
    """The machine lacks something: rights, a controller, a mount, a program."""

    exit_code = EXIT_CANNOT


def reason_of(error: QosletError) -> str:
    """Where it failed and how, without what to do."""
    return f"{error.where}: {error.message}" if error.where else error.message


def system_reason(error: OSError) -> str:
    """What the system said, and of which file where it names one."""
    said = error.strerror or str(error) or type(error).__name__
    return f"{said}: {error.filename}" if error.filename else said
