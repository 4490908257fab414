"""What a document holds: an OCI block, messages of the CRI, pods; told apart by their fields.

``qoslet plan -o oci`` and ``-o cri`` are read, too: each container is a block or a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct, structs

from qoslet.core.convert.block import Block, block_of, spelled
from qoslet.core.convert.cri import LINUX, Message, message_of, snake
from qoslet.core.shapes import shown
from qoslet.errors import BadInput

Kind = Literal["oci", "cri", "pod"]

_BLOCK = frozenset(spelled(name) for name in Block.__struct_fields__)
_MESSAGE = frozenset(LINUX)
_BOTH = frozenset(("unified", "hugepageLimits"))
"""Names that stand in both; the JSON form of a message spells hugepage_limits so."""

_WINDOWS = frozenset(
    ("cpu_shares", "cpu_count", "cpu_maximum", "memory_limit_in_bytes", "rootfs_size_in_bytes",
     "affinity_cpus")
)  # fmt: skip


class Given(Struct, frozen=True):
    """One resource block of a document: Linux' as an OCI block or a message, or Windows' fields.

    ``name`` tells it from others of the document, ``where`` is its place in messages;
    ``sandbox``: of a LinuxPodSandboxConfig.
    """

    name: str
    where: str
    block: Block | None = None
    message: Message | None = None
    windows: dict[str, Any] | None = None
    sandbox: bool = False


def kind_of(given: Mapping[str, Any], where: str) -> Kind:
    """What a document is; BadInput where its fields do not say."""
    if isinstance(given.get("kind"), str) and "apiVersion" in given:
        return {"Cri": "cri", "Oci": "oci"}.get(given["kind"], "pod")  # type: ignore[return-value]
    if "ociVersion" in given or "process" in given:
        return "oci"
    names = frozenset(map(snake, given))
    if names & {"container_id", "pod_sandbox_id", "cgroup_parent", "overhead", "image"}:
        return "cri"
    for key in ("linux", "windows"):
        inner = given.get(key)
        if isinstance(inner, Mapping) and "metadata" in given:
            return "cri"
        if isinstance(inner, Mapping) and inner:
            return _inner(inner, where)
    return _loose(frozenset(given), where)


def _inner(inner: Mapping[str, Any], where: str) -> Kind:
    names = frozenset(map(snake, inner))
    if names & {"cgroup_parent", "overhead", "security_context"}:
        return "cri"
    if names & {"cgroups_path", "namespaces", "seccomp", "devices"}:
        return "oci"
    resources = inner.get("resources", inner)
    if not isinstance(resources, Mapping):
        raise BadInput("expected `object`", where=f"{where}: resources")
    if "storage" in resources:
        return "oci"
    return _loose(frozenset(resources), where)


def _loose(names: frozenset[str], where: str) -> Kind:
    telling = names - _BOTH
    oci, cri = telling & _BLOCK, frozenset(map(snake, telling)) & (_MESSAGE | _WINDOWS)
    if bool(oci) == bool(cri):
        message = "may be a block of the OCI or a message of the CRI" if names <= _BOTH else (
            "is no resource block of the OCI, message of the CRI, or pod"
        )  # fmt: skip
        raise BadInput(message, where=where, hint="say which: --from oci, cri or pod")
    return "oci" if oci else "cri"


def windows_message(given: Mapping[str, Any], where: str) -> Given | None:
    """A bare WindowsContainerResources; some fields of it alone would be a Linux message, too."""
    fields = {snake(key): value for key, value in given.items()}
    return Given("", where, windows=fields) if fields and fields.keys() <= _WINDOWS else None


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadInput("expected `object`", where=where)
    return value


def blocks_of(given: Mapping[str, Any], kind: Kind, where: str) -> Iterator[Given]:
    """The resource blocks of a document of that kind, which is not a pod. Raises BadInput."""
    if isinstance(given.get("items"), list) and "apiVersion" in given:
        yield from _items(given["items"], kind, where)
        return
    if kind == "oci":
        yield from _config(given, "", where)
    else:
        yield from _messages(given, "", where)


def _items(items: list[Any], kind: Kind, where: str) -> Iterator[Given]:
    """The containers and sandboxes of what ``plan`` prints."""
    for number, item in enumerate(items):
        pod = _mapping(item, f"{where}: items[{number}]")
        at = f"{where}: {shown(str(pod.get('namespace')))}/{shown(str(pod.get('name')))}"
        label = f"{pod.get('namespace')}/{pod.get('name')}"
        sandbox = pod.get("sandbox")
        if kind == "cri" and isinstance(sandbox, Mapping) and sandbox:
            yield from _messages(sandbox, f"{label} sandbox", f"{at}: sandbox")
        containers = pod.get("containers") or []
        if not isinstance(containers, list):
            raise BadInput("expected `array`", where=f"{at}: containers")
        for each in containers:
            one = _mapping(each, f"{at}: containers")
            name = f"{label}/{one.get('name')}"
            within = f"{at}: {shown(str(one.get('name')))}"
            reader = _config if kind == "oci" else _messages
            yield from reader(one, name, within)


def _config(given: Mapping[str, Any], name: str, where: str) -> Iterator[Given]:
    """A config.json, a part of it, or a bare block."""
    linux, windows = given.get("linux"), given.get("windows")
    if windows is not None:
        inner = _mapping(windows, f"{where}: windows")
        fields = _mapping(inner.get("resources") or {}, f"{where}: windows.resources")
        yield Given(name, f"{where}: windows.resources", windows={"oci": dict(fields)})
    if linux is not None:
        inner = _mapping(linux, f"{where}: linux")
        resources = _mapping(inner.get("resources") or {}, f"{where}: linux.resources")
        at = f"{where}: linux.resources"
        yield Given(name, at, block=block_of(resources, at))
        return
    if windows is None and "ociVersion" not in given:
        yield Given(name, where, block=block_of(given, where))


def _messages(given: Mapping[str, Any], name: str, where: str) -> Iterator[Given]:
    """ContainerConfig, PodSandboxConfig, the request of an update, or a bare message."""
    fields = {snake(key): value for key, value in given.items()}
    if isinstance(fields.get("windows"), Mapping):
        inner = fields["windows"]
        resources = inner.get("resources", inner)
        yield Given(name, f"{where}: windows", windows=dict(_mapping(resources, where)))
    if isinstance(fields.get("linux"), Mapping):
        linux = {snake(key): value for key, value in fields["linux"].items()}
        if linux.keys() & {"resources", "overhead", "cgroup_parent", "security_context"}:
            yield from _parts(linux, name, f"{where}: linux")
        else:
            yield _message(fields["linux"], name, f"{where}: linux")
        return
    if fields.keys() & {"overhead", "cgroup_parent"}:
        yield from _parts(fields, name, where)
    elif fields.keys() & (_WINDOWS - _MESSAGE):
        yield Given(name, where, windows=fields)
    elif "windows" not in fields:
        yield _message(given, name, where)


def _parts(linux: Mapping[str, Any], name: str, where: str) -> Iterator[Given]:
    """The resources, and the overhead of a sandbox."""
    for key in ("resources", "overhead"):
        value = linux.get(key)
        if value:
            label = f"{name} {key}".strip() if key == "overhead" else name
            given = _message(_mapping(value, f"{where}.{key}"), label, f"{where}.{key}")
            sandbox = bool(linux.keys() & {"cgroup_parent", "overhead"})
            yield structs.replace(given, sandbox=sandbox)


def _message(given: Mapping[str, Any], name: str, where: str) -> Given:
    return Given(name, where, message=message_of(given, where))
