"""Where a node's field is looked up: documents, then a probe of this machine, then what is assumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct

from qoslet.core.node.documents.sources import Fields, Sources
from qoslet.core.node.faults import Faults
from qoslet.core.node.node import Assumed, Hierarchy
from qoslet.core.node.topology import Layout, NumaNode

if TYPE_CHECKING:
    from qoslet.core.node.described.assumptions import Clues

Value = TypeVar("Value")
Reader = Callable[[Faults, str, Any], Value | None]


class Probed(Struct, frozen=True):
    """What a look at a machine found out; None (or nothing in a map) where it did not.

    Amounts are bytes, ``cpu`` whole CPUs, ``hugepages`` page size to bytes set aside;
    ``systemd_runs`` tells that systemd is PID 1, whatever its version; ``unified`` is the mount
    point of v2, on a hybrid host too; ``identity`` has the machine's ``name`` and, as in nodeInfo,
    its ``machineID``, ``systemUUID`` and ``bootID``.
    """

    cpu: int | None = None
    memory: int | None = None
    swap: int | None = None
    pid: int | None = None
    hugepages: Mapping[int, int] | None = None
    hierarchy: Hierarchy | None = None
    kernel: str | None = None
    page_size: int | None = None
    swap_controller: bool | None = None
    systemd: int | None = None
    systemd_runs: bool | None = None
    controllers: frozenset[str] | None = None
    hugetlb_rsvd: bool | None = None
    psi: bool | None = None
    mounts: Mapping[str, str] | None = None
    unified: str | None = None
    numa: tuple[NumaNode, ...] | None = None
    cpus: str | None = None
    layout: Layout | None = None
    identity: Mapping[str, str] = {}


Look = Literal["auto", "always", "never"]
"""Whether what no document says is read from this machine; ``auto``: unless the documents are of
another one."""


class Lookup:
    """Looks a field up: qoslet's Node, then the API's, then a probe, made only when needed.

    ``described``: the documents are of another machine, by its API Node, kubeadm's file or a flag; a
    KubeletConfiguration names none. ``configured``: the kubelet's fields, with flags. ``asked_release``:
    the release that a flag names.
    """

    def __init__(
        self,
        faults: Faults,
        sources: Sources,
        probe: Callable[[], Probed],
        look: Look = "auto",
        configured: Fields | None = None,
    ) -> None:
        self.faults = faults
        self.own: Fields = sources.own or {}
        self.api: Fields = sources.api or {}
        self._registered = sources.kubeadm.get("metadata.name", (None, ""))[0]
        self.origins: dict[str, str] = {}
        self.probed: set[str] = set()
        self.assumed: list[Assumed] = []
        self.asked_release: str | None = None
        self._probe = probe
        self._found: Probed | None = None
        self._look = look
        self._configured: Fields = configured or {}
        self._described: bool | None = None
        # kubeadm's file and flags never have the size of the machine that they name
        self.only_named = look == "auto" and not self.api and self._registered is not None

    @property
    def described(self) -> bool:
        """Whether what is not told is assumed, not probed; decided where something is not."""
        if self._described is None:
            named = bool(self.api) or isinstance(self._registered, str)
            elsewhere = self._look == "never" or (named and self._elsewhere())
            self._described = self._look != "always" and elsewhere
        return self._described

    def _elsewhere(self) -> bool:
        """Whether the documents are of another machine."""
        from qoslet.core.node.described.this_machine import is_this

        if not self.api:
            return not is_this({"name": self._registered}, self.found().identity)
        fields = ("metadata.name", "machineID", "systemUUID", "bootID")
        named = {name.rpartition(".")[2]: self.api.get(name, ("",))[0] for name in fields}
        texts = {field: text for field, text in named.items() if isinstance(text, str)}
        return not is_this(texts, self.found().identity)

    def clues(self) -> Clues:
        """What the documents say of a described machine."""
        from qoslet.core.node.described.assumptions import clues_of

        return clues_of(self.own, self.api, self._configured, self.asked_release)

    def found(self) -> Probed:
        """The probe's answer."""
        if self._found is None:
            self._found = self._probe()
        return self._found

    def given(self, field: str, reader: Reader[Value]) -> Value | None:
        """The field's value where a document gives it."""
        for source in (self.own, self.api):
            if field in source:
                value, where = source[field]
                self.origins[field] = where
                return reader(self.faults, where, value)
        return None

    def known(self, field: str) -> bool:
        """Whether a document gives the field, rightly or not."""
        return field in self.own or field in self.api

    def noted(self, field: str, value: Value | None) -> Value | None:
        """Note that ``value`` was probed, if it was."""
        if value is not None:
            self.probed.add(field)
            self.origins[field] = "probed"
        return value

    def assume(self, field: str, value: Value, text: str, why: str) -> Value:
        """Note that ``value``, in documents ``text``, is assumed."""
        self.assumed.append(Assumed(field, text, why))
        self.origins[field] = "assumed"
        return value

    def fact(self, field: str, reader: Reader[Value], attribute: str) -> Value | None:
        """The field from a document, else probed where that is this machine, else None."""
        if self.known(field):
            return self.given(field, reader)
        if self.described:
            return None
        found: Value | None = getattr(self.found(), attribute)
        return self.noted(field, found)
