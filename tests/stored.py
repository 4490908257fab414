"""What is stored on disk or sent between processes, as names: a table of all fields and their types.

A row is ``ROOT.FIELD.FIELD`` and the type there. Classes are not named in it: they may be renamed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from msgspec import inspect

from qoslet.app.agent import pages
from qoslet.core.api.ids import bundle_id
from qoslet.core.cgroup.names import monitors_of
from qoslet.core.managers import checkpoint, state_files
from qoslet.core.memory import counter_store
from qoslet.core.reconcile import journal
from qoslet.core.reconcile.resize import _Memo
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.life import Life
from qoslet.core.workload.oci import bundle
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.core.workload.process_spec import PodSpec
from qoslet.host.containers import records
from qoslet.host.cri import requests
from qoslet.host.cri.pod_record import CriPodRecord
from qoslet.host.keeper import protocol
from qoslet.host.state import folder

ROOTS: Mapping[str, Any] = {
    "journal": journal.Entry,
    "record": records.PodRecord,
    "cri-record": CriPodRecord,
    "pod": PodSpec,
    "held": RuntimePod,
    "container": ContainerState,
    "life": Life,
    "memo": _Memo,
    "memory-events": counter_store._StoredCounters,
    "cpu_manager_state": checkpoint._Cpu,
    "memory_manager_state": checkpoint._Memory,
    "keeper-setting": protocol.KeeperSettings,
    "keeper-request": protocol.Requests,
    "keeper-news": protocol.KeeperMessages,
}

_SHARED = {kind: name for name, kind in ROOTS.items() if isinstance(kind, type)}

Rows = dict[str, str]


LATER_PAGES = frozenset(("/v1/node",))
"""Pages of the agent that an earlier version did not have."""
PAGES = pages.pages_of(cast(Any, None), "", cast(Any, None)).keys()

NAMES: Mapping[str, object] = {
    "journal.format": journal.FORMAT,
    "record.format": records.FORMAT,
    "record.file": records.RECORD,
    "state": folder.STATE,
    "state.folders": " ".join(folder.POD_FOLDERS),
    "state.oci": folder.OCI,
    "state.memory-events": folder.MEMORY_COUNTERS,
    "state.managers": " ".join(state_files.FILES),
    "state.cri-endpoint": folder.CRI_ENDPOINT,
    "agent.pages": " ".join(sorted(PAGES - LATER_PAGES)),
    "agent.pages.later": " ".join(sorted(PAGES & LATER_PAGES)),
    "state.agent-socket": folder.AGENT_SOCKET,
    "keeper.version": protocol.VERSION,
    "keeper.socket": folder.KEEPER_SOCKET,
    "keeper.lock": folder.KEEPER_LOCK,
    "keeper.errors": folder.KEEPER_ERRORS,
    "cri.label.root": requests.OLD_ROOT,
    "cri.label.uid": requests.UID,
    "cri.label.name": requests.NAME,
    "cri.label.namespace": requests.NAMESPACE,
    "cri.label.container": requests.CONTAINER,
    "cri.annotation.pod": requests.OLD_SPEC,
    "cri.annotation.digest": requests.OLD_DIGEST,
    "cri.monitors": monitors_of("/pod"),
    "cri.monitors.systemd": monitors_of("/a.slice/a-b.slice"),
    "bundle.id": bundle_id("uid-0", "app"),
    "bundle.stop-signal": bundle.STOP_SIGNAL,
}
"""Names and numbers that are no fields."""


def table() -> Rows:
    """All rows."""
    rows = {f"name:{name}": str(value) for name, value in NAMES.items()}
    for name, kind in ROOTS.items():
        rows.update(_rows(name, inspect.type_info(kind)))
    return rows


def _rows(at: str, kind: inspect.Type) -> Iterator[tuple[str, str]]:
    """The rows of a type that stands at ``at``."""
    match kind:
        case inspect.StructType() if kind.cls in _SHARED and at not in ROOTS:
            yield at, f"{_SHARED[kind.cls]}, see there"
        case inspect.StructType():
            yield from _struct(at, kind)
        case inspect.UnionType():
            inner = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
            if len(inner) < len(kind.types):
                yield f"{at}?", "null"
            for one in inner:
                yield from _rows(at, one)
        case inspect.DictType():
            if isinstance(kind.key_type, inspect.LiteralType):
                yield from _rows(f"{at}{{}}", kind.key_type)
            yield from _rows(f"{at}{{}}", kind.value_type)
        case inspect.ListType() | inspect.VarTupleType() | inspect.FrozenSetType():
            yield from _rows(f"{at}[]", kind.item_type)
        case inspect.TupleType():
            for number, one in enumerate(kind.item_types):
                yield from _rows(f"{at}[{number}]", one)
        case inspect.LiteralType():
            for value in sorted(kind.values, key=str):
                yield f"{at}={value}", "value"
        case inspect.EnumType():
            for member in sorted(kind.cls, key=lambda one: str(one.value)):
                yield f"{at}={member.value}", "value"
        case inspect.CustomType():
            yield at, kind.cls.__name__
        case _:
            yield at, _SCALARS[type(kind)]


_SCALARS: Mapping[type, str] = {
    inspect.StrType: "text",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
    inspect.BytesType: "base64",
    inspect.AnyType: "any",
}


def _struct(at: str, kind: inspect.StructType) -> Iterator[tuple[str, str]]:
    """The rows of a struct: its tag, then its fields, by position where they have no names."""
    if kind.tag is not None:
        at = f"{at}({kind.tag_field or 0}={kind.tag})"
        yield at, "tag"
    for number, field in enumerate(kind.fields, start=kind.tag is not None):
        name = f"{at}[{number}]" if kind.array_like else f"{at}.{field.encode_name}"
        yield f"{name}!", "needed" if field.required else "optional"
        yield from _rows(name, field.type)
