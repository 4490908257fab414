"""The parts of Kubernetes documents that decide about resources, as typed shapes.

Every field is optional here: what is required is said by ``manifest`` with the field path, not
by the decoder, which stops at its first fault. Fields that nobody reads are skipped unread, so
a 5 KB pod costs a few microseconds. ``Raw`` fields are decoded where they are looked at.

Source: k8s.io/api core/v1, apps/v1, batch/v1 types.go.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import Raw, Struct

NOTHING = Raw()

DECODE_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError)
"""All that ``msgspec.json.decode`` raises on text that it cannot take."""


class OwnerShape(Struct, gc=False):
    """metav1.OwnerReference."""

    kind: str | None = None
    name: str | None = None
    controller: Raw = NOTHING


class Metadata(Struct, gc=False, rename="camel"):
    """metav1.ObjectMeta."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None
    owner_references: list[OwnerShape] | None = None
    generation: Any = None
    deletion_timestamp: Any = None


class ContainerShape(Struct, gc=False, rename="camel"):
    """core/v1 Container and EphemeralContainer. ``validation.pods`` takes the names and choices, and
    the texts at the end, as slices."""

    name: str | None = None
    target_container_name: str | None = None
    restart_policy: str | None = None
    image_pull_policy: str | None = None
    termination_message_policy: str | None = None
    image: str | None = None
    command: list[str | None] | None = None
    args: list[str | None] | None = None
    working_dir: str | None = None
    resources: Raw = NOTHING
    lifecycle: Raw = NOTHING
    env: Raw = NOTHING
    env_from: Raw = NOTHING
    liveness_probe: Raw = NOTHING
    ports: Raw = NOTHING
    readiness_probe: Raw = NOTHING
    resize_policy: Raw = NOTHING
    security_context: Raw = NOTHING
    startup_probe: Raw = NOTHING
    volume_mounts: Raw = NOTHING


class OsShape(Struct, gc=False):
    """core/v1 PodOS."""

    name: str | None = None


class PodSpecShape(Struct, gc=False, rename="camel"):
    """core/v1 PodSpec. ``validation.pods`` takes the plain fields at the begin, and the texts at the
    end, as slices."""

    restart_policy: str | None = None
    dns_policy: str | None = None
    preemption_policy: str | None = None
    priority_class_name: str | None = None
    runtime_class_name: str | None = None
    service_account_name: str | None = None
    active_deadline_seconds: int | None = None
    host_ipc: bool | None = msgspec.field(default=None, name="hostIPC")
    host_network: bool | None = None
    host_pid: bool | None = msgspec.field(default=None, name="hostPID")
    host_users: bool | None = None
    hostname: str | None = None
    share_process_namespace: bool | None = None
    subdomain: str | None = None
    termination_grace_period_seconds: int | None = None
    containers: list[ContainerShape] | None = None
    init_containers: list[ContainerShape] | None = None
    ephemeral_containers: list[ContainerShape] | None = None
    resources: Raw = NOTHING
    overhead: Raw = NOTHING
    os: OsShape | None = None
    node_name: str | None = None
    priority: int | None = None
    affinity: Raw = NOTHING
    node_selector: dict[str, str] | None = None
    volumes: Raw = NOTHING
    security_context: Raw = NOTHING
    resource_claims: Raw = NOTHING


class ContainerStatusShape(Struct, gc=False):
    """core/v1 ContainerStatus."""

    name: str | None = None
    container_id: str | None = msgspec.field(default=None, name="containerID")
    state: Any = None
    last_state: Any = msgspec.field(default=None, name="lastState")
    restart_count: Any = msgspec.field(default=None, name="restartCount")
    resources: Raw = NOTHING
    allocated_resources: Raw = msgspec.field(default=NOTHING, name="allocatedResources")


class PodStatusShape(Struct, gc=False, rename="camel"):
    """core/v1 PodStatus."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    qos_class: str | None = None
    container_statuses: list[ContainerStatusShape] | None = None
    init_container_statuses: list[ContainerStatusShape] | None = None
    ephemeral_container_statuses: list[ContainerStatusShape] | None = None
    resources: Raw = NOTHING
    allocated_resources: Raw = NOTHING
    observed_generation: Any = None
    conditions: Raw = NOTHING


class PodShape(Struct, gc=False, rename="camel"):
    """core/v1 Pod, and with neither kind nor status a PodTemplateSpec."""

    api_version: str | None = None
    kind: str | None = None
    metadata: Metadata | None = None
    spec: PodSpecShape | None = None
    status: PodStatusShape | None = None


class JobShape(Struct, gc=False, rename="camel"):
    """batch/v1 JobSpec below a CronJob's jobTemplate."""

    template: PodShape | None = None
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None


class JobTemplateShape(Struct, gc=False):
    """batch/v1 JobTemplateSpec."""

    spec: JobShape | None = None


class ClaimShape(Struct, gc=False):
    """core/v1 PersistentVolumeClaim in a StatefulSet; its volume has the claim's name."""

    metadata: Metadata | None = None


class OrdinalsShape(Struct, gc=False):
    """apps/v1 StatefulSetOrdinals."""

    start: int | None = None


class WorkloadSpecShape(Struct, gc=False, rename="camel"):
    """The specs of apps/v1 and batch/v1: what carries a pod template and how many of it."""

    template: PodShape | None = None
    job_template: JobTemplateShape | None = None
    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    ordinals: OrdinalsShape | None = None
    selector: Raw = NOTHING
    volume_claim_templates: list[ClaimShape] | None = None


class WorkloadShape(Struct, gc=False, rename="camel"):
    """Any kind that carries a pod template; ``template`` is that of a PodTemplate."""

    metadata: Metadata | None = None
    spec: WorkloadSpecShape | None = None
    template: PodShape | None = None


class Envelope(Struct, gc=False, rename="camel"):
    """What every document has, and the items of a list, still undecoded."""

    api_version: str | None = None
    kind: str | None = None
    items: list[Raw] | msgspec.UnsetType | None = msgspec.UNSET
    metadata: Raw = NOTHING


decode_envelope = msgspec.json.Decoder(Envelope).decode
decode_pod = msgspec.json.Decoder(PodShape).decode
decode_raw_map = msgspec.json.Decoder(dict[str, Raw]).decode


@cache
def _workloads() -> msgspec.json.Decoder[WorkloadShape]:
    # made where a template is read: most input has pods only
    return msgspec.json.Decoder(WorkloadShape)


def decode_workload(data: Raw | bytes | memoryview) -> WorkloadShape:
    """A document that carries a pod template. Raises what ``DECODE_ERRORS`` lists."""
    return _workloads().decode(data)


TYPE_FAULTS_MAX = 1000
"""Where ``collect`` stops listing: such a document is not nearly right."""

TypeFault = tuple[str, str]
"""The path of a value that has the wrong type, and what it is instead of what."""


SHOWN_MAX = 120
"""Characters of a text that ``shown`` leaves as they are."""


_PATH_MAX = 4096


def shown(text: str, limit: int = SHOWN_MAX) -> str:
    """``text`` as it may reach a terminal: no control character, bounded in length."""
    if len(text) > limit:
        text = text[:limit] + "…"
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def shown_path(path: str) -> str:
    """The same of a path, whole: people and programs open it."""
    return shown(path, _PATH_MAX)


def encode_json(value: object) -> bytes:
    """``value`` as JSON; bytes that are not UTF-8 come out as ``\\\\udcXX``."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(escaped(msgspec.to_builtins(value)))


def escaped(value: object) -> object:
    """``value`` with its lone surrogates, which stand for such bytes, written out."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {escaped(key): escaped(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [escaped(item) for item in value]
    return value


def child(path: str, key: str) -> str:
    """The path of member ``key``: ``a.b``, or ``a[example.com/gpu]`` as Kubernetes writes it."""
    if key.replace("-", "").replace("_", "").isalnum() and key.isascii():
        return f"{path}.{key}" if path else key
    return f"{path}[{shown(key, 80)}]"


def follows(path: str, broken: set[str]) -> bool:
    """Whether a fault at ``path`` only follows from one at it or above it."""
    while path and path not in broken:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return bool(path)


def nearest(word: str, known: tuple[str, ...]) -> str:
    """``did you mean X?`` for a misspelt ``word``, or nothing."""
    from difflib import get_close_matches

    matches = get_close_matches(word.lower(), [name.lower() for name in known], n=1, cutoff=0.6)
    for name in known:
        if matches and name.lower() == matches[0]:
            return f"did you mean {name}?"
    return ""


def type_name(value: Any) -> str:
    """What JSON calls the type of ``value``."""
    if value is None:
        return "null"
    names = {bool: "a boolean", str: "a string", int: "a number", float: "a number"}
    return names.get(type(value)) or ("an array" if isinstance(value, list) else "an object")


_WANTED = {
    "StrType": (str, "a string"),
    "IntType": (int, "a whole number"),
    "BoolType": (bool, "a boolean"),
}


_kinds: dict[Any, Any] = {}


def collect(value: Any, shape: Any, path: str = "") -> tuple[Any, list[TypeFault]]:
    """Every place where ``value`` (decoded, untyped) departs from ``shape``.

    Returns the value with the faulty parts set to null, so that it decodes and the rest can
    still be looked at, and the faults, at most TYPE_FAULTS_MAX. Depth is bounded by the shape, not by the value.
    """
    kind = _kinds.get(shape)
    if kind is None:
        from msgspec import inspect

        kind = _kinds[shape] = inspect.type_info(shape)
    faults: list[TypeFault] = []
    return _collect(value, kind, path, faults), faults


def _collect(value: Any, kind: Any, path: str, faults: list[TypeFault]) -> Any:
    name = type(kind).__name__
    if name == "UnionType":
        if value is None:
            return None
        kind = next(
            alternative for alternative in kind.types if type(alternative).__name__ != "NoneType"
        )
        name = type(kind).__name__
    if name in _WANTED:
        wanted, called = _WANTED[name]
        if isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool)):
            return value
        if wanted is int and isinstance(value, float) and value.is_integer():
            return int(value)  # 3.0 in YAML is 3 to Go
        faults.append((path, f"must be {called}, is {type_name(value)}"))
        return None
    if name == "ListType":
        return _collect_list(value, kind, path, faults)
    if name in ("StructType", "DictType"):
        return _collect_object(value, kind, path, faults)
    return value


def _collect_list(value: Any, kind: Any, path: str, faults: list[TypeFault]) -> Any:
    if not isinstance(value, list):
        faults.append((path, f"must be an array, is {type_name(value)}"))
        return None
    blank: Any = None if type(kind.item_type).__name__ == "UnionType" else {}
    items = []
    for index, item in enumerate(value):
        clean = _collect(item, kind.item_type, f"{path}[{index}]", faults)
        items.append(blank if clean is None else clean)
        if len(faults) >= TYPE_FAULTS_MAX:
            break
    return items


def _collect_object(value: Any, kind: Any, path: str, faults: list[TypeFault]) -> Any:
    if not isinstance(value, dict):
        faults.append((path, f"must be an object, is {type_name(value)}"))
        return None
    if type(kind).__name__ == "DictType":
        members = {}
        for key, item in value.items():
            if item is None:
                continue  # null is the empty text in Go
            clean = _collect(item, kind.value_type, child(path, key), faults)
            if clean is not None:
                members[key] = clean
            if len(faults) >= TYPE_FAULTS_MAX:
                break
        return members
    fields = {field.encode_name: field.type for field in kind.fields}
    return {
        key: _collect(item, fields[key], child(path, key), faults)
        for key, item in value.items()
        if key in fields
    }
