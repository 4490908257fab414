"""The resource blocks of a document: OCI blocks or CRI messages, recognized by their fields.

Also reads the output of ``qoslet plan -o oci`` and ``-o cri``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct, structs

from qoslet.core.api.input.unknown_fields import unknown
from qoslet.core.api.schema import child, shown
from qoslet.core.convert.cri_fields import MESSAGES, check, spot
from qoslet.core.convert.cri_message import LINUX, Message, message_of, snake
from qoslet.core.convert.windows_fields import WindowsFields, fields_in, fields_of, unread
from qoslet.core.oci.resources import Block, block_of, spelled
from qoslet.core.problem import Problem
from qoslet.core.resources.cri_resources import CriResources
from qoslet.errors import BadInput

Kind = Literal["oci", "cri", "pod"]

_BLOCK = frozenset(spelled(name) for name in Block.__struct_fields__)
_MESSAGE = frozenset(LINUX)
_BOTH = frozenset(("unified", "hugepageLimits"))
"""Names that both have; hugepageLimits is the JSON form of a message's hugepage_limits."""

_WINDOWS = frozenset(
    ("cpu_shares", "cpu_count", "cpu_maximum", "memory_limit_in_bytes", "rootfs_size_in_bytes",
     "affinity_cpus")
)  # fmt: skip


_HOST_PROCESS = "microsoft.com/hostprocess-container"
"""The annotation that containerd gives a HostProcess container. Source: hcsshim pkg/annotations."""


class CriSandbox(Struct, frozen=True):
    """The resources or the overhead of a LinuxPodSandboxConfig."""

    message: Message


Resources = Block | Message | CriSandbox | WindowsFields
"""A resource block: Linux' as the OCI or the CRI spells it, or Windows'."""


class ResourceBlock(Struct, frozen=True):
    """One resource block of a document. ``name`` is unique in the document; ``where`` is its place
    in error messages."""

    name: str
    where: str
    resources: Resources


def kind_of(given: Mapping[str, Any], where: str) -> Kind:
    """The kind of a document. Raises BadInput if its fields do not decide."""
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
        message = "may be an OCI block or a CRI message" if names <= _BOTH else (
            "is not an OCI resource block, a CRI message or a pod"
        )  # fmt: skip
        raise BadInput(message, where=where, hint="give --from oci, cri or pod")
    return "oci" if oci else "cri"


def windows_message(given: Mapping[str, Any], where: str) -> ResourceBlock | None:
    """A bare WindowsContainerResources; some of its fields are those of a Linux message, too."""
    names = frozenset(map(snake, given))
    return _of_windows(given, "", where, "") if names and names <= _WINDOWS else None


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadInput("expected `object`", where=where)
    return value


def blocks_of(
    given: Mapping[str, Any], kind: Kind, where: str, problems: list[Problem]
) -> Iterator[ResourceBlock]:
    """The resource blocks of a document that is not a pod. Adds a row to ``problems`` for each
    unknown name. Raises BadInput."""
    if isinstance(given.get("items"), list) and "apiVersion" in given:
        yield from _items(given["items"], kind, where, problems)
    elif kind == "oci":
        yield from _config(given, "", where, problems)
    else:
        yield from _messages(given, "", where, "", problems)


def _items(
    items: list[Any], kind: Kind, where: str, problems: list[Problem]
) -> Iterator[ResourceBlock]:
    """The containers and sandboxes in the output of ``plan``."""
    for number, item in enumerate(items):
        pod = _mapping(item, f"{where}: items[{number}]")
        at = f"{where}: {shown(str(pod.get('namespace')))}/{shown(str(pod.get('name')))}"
        label = f"{pod.get('namespace')}/{pod.get('name')}"
        sandbox = pod.get("sandbox")
        if kind == "cri" and isinstance(sandbox, Mapping) and sandbox:
            yield from _messages(sandbox, f"{label} sandbox", at, "sandbox", problems)
        containers = pod.get("containers") or []
        if not isinstance(containers, list):
            raise BadInput("expected `array`", where=f"{at}: containers")
        for container in containers:
            fields = _mapping(container, f"{at}: containers")
            name = f"{label}/{fields.get('name')}"
            within = f"{at}: {shown(str(fields.get('name')))}"
            if kind == "oci":
                yield from _config(fields, name, within, problems)
            else:
                config = {key: value for key, value in fields.items() if key not in _OF_PLAN}
                yield from _messages(config, name, within, "", problems)


_OF_PLAN = ("name", "role")
"""Fields of a container in the output of ``plan`` that are not part of its message."""


def _config(
    given: Mapping[str, Any], name: str, where: str, problems: list[Problem]
) -> Iterator[ResourceBlock]:
    """A config.json, a part of it, or a bare block."""
    linux, windows = given.get("linux"), given.get("windows")
    if linux is not None or windows is not None or "ociVersion" in given:
        _add_unknown_names(given, _CONFIG, "config.json", where, "", problems)
    if windows is not None:
        inner = _mapping(windows, f"{where}: windows")
        _add_unknown_names(inner, _WINDOWS_CONFIG, "windows", where, "windows", problems)
        fields = _mapping(inner.get("resources") or {}, f"{where}: windows.resources")
        at = f"{where}: windows.resources"
        problems += unread(fields, at)
        annotations = given.get("annotations")
        on_host = isinstance(annotations, Mapping) and annotations.get(_HOST_PROCESS) == "true"
        block = structs.replace(fields_of({"oci": dict(fields)}, at), host_process=on_host)
        yield ResourceBlock(name, at, block)
    if linux is not None:
        inner = _mapping(linux, f"{where}: linux")
        _add_unknown_names(inner, _LINUX, "linux", where, "linux", problems)
        resources = _mapping(inner.get("resources") or {}, f"{where}: linux.resources")
        at = f"{where}: linux.resources"
        yield ResourceBlock(name, at, block_of(resources, at, problems))
        return
    if windows is None and "ociVersion" not in given:
        yield ResourceBlock(name, where, block_of(given, where, problems))


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_WINDOWS_CONFIG = _names(
    "layerFolders devices resources network credentialSpec servicing ignoreFlushesDuringBoot hyperv"
)
_CONFIG = _names(
    "ociVersion process root hostname domainname mounts hooks annotations linux windows "
    "solaris vm zos freebsd"
)
_LINUX = _names(
    "uidMappings gidMappings sysctl resources cgroupsPath namespaces devices netDevices "
    "seccomp rootfsPropagation maskedPaths readonlyPaths mountLabel intelRdt memoryPolicy "
    "personality timeOffsets"
)
"""The fields of config.json and its ``linux``. Source: runtime-spec specs-go/config.go."""


def _add_unknown_names(
    given: Mapping[str, Any],
    known: tuple[str, ...],
    of: str,
    where: str,
    path: str,
    problems: list[Problem],
) -> None:
    """Adds a row to ``problems`` for each unknown name."""
    names = (str(name) for name in given if name not in known and name not in _OF_PLAN)
    problems += [unknown(where, child(path, name), of, known) for name in names]


def _messages(
    given: Mapping[str, Any], name: str, where: str, path: str, problems: list[Problem]
) -> Iterator[ResourceBlock]:
    """The resource blocks of a CRI message; the fields around them are checked."""
    message = _message_name(given)
    if message is None:
        if frozenset(map(snake, given)) & (_WINDOWS - _MESSAGE):
            yield _of_windows(given, name, where, path)
        else:
            yield ResourceBlock(name, where, message_of(given, where, path))
        return
    fields = check(given, message, where, path, problems)
    if message in _REQUESTS:
        if "config" in fields:
            yield from _messages(fields["config"], name, where, child(path, "config"), problems)
        return
    kind = MESSAGES[message].get("windows")
    if "windows" in fields and kind is not None:
        inner, at, on_host = fields["windows"], child(path, "windows"), False
        if kind != "Resources":
            on_host = _on_host(inner)
            inner, at = inner.get("resources"), f"{at}.resources"
        if inner is not None or on_host:
            yield _of_windows(inner or {}, name, where, at, on_host)
    linux = MESSAGES[message].get("linux")
    if linux is None:
        yield from _parts(fields, message, name, where, path)
    elif "linux" not in fields:
        if "windows" not in fields:
            yield ResourceBlock(name, where, Message(CriResources()))
    elif linux == "Resources":
        at = child(path, "linux")
        yield ResourceBlock(name, where, message_of(fields["linux"], where, at))
    else:
        inner = check(fields["linux"], linux, where, child(path, "linux"), [])
        yield from _parts(inner, linux, name, where, child(path, "linux"))


_REQUESTS = ("CreateContainerRequest", "RunPodSandboxRequest")
_OF_SANDBOX = frozenset(("cgroup_parent", "overhead", "sysctls"))
_OF_CONFIG = frozenset(
    ("linux", "windows", "metadata", "image", "command", "args", "working_dir", "envs", "mounts",
     "log_path", "hostname", "log_directory", "dns_config", "port_mappings")
)  # fmt: skip


def _message_name(given: Mapping[str, Any]) -> str | None:
    """The name of a message, by its fields; None for bare resources."""
    names = frozenset(map(snake, given))
    if "container_id" in names:
        return "UpdateContainerResourcesRequest"
    if "config" in names:
        return _REQUESTS["runtime_handler" in names]
    if "pod_sandbox_id" in names:
        return "UpdatePodSandboxResourcesRequest"
    if names & _OF_SANDBOX:
        return "LinuxPodSandboxConfig"
    if names & _OF_CONFIG:
        return _config_name(given, names)
    return "LinuxContainerConfig" if names & {"resources", "security_context"} else None


def _config_name(given: Mapping[str, Any], names: frozenset[str]) -> str:
    """The name of a message that may have ``linux`` or ``windows``."""
    linux, metadata = given.get("linux"), given.get("metadata")
    inner = frozenset(map(snake, linux)) if isinstance(linux, Mapping) else frozenset()
    windows = given.get("windows")
    beside = frozenset(map(snake, windows)) if isinstance(windows, Mapping) else frozenset()
    if names <= {"linux", "windows"} and (inner & _MESSAGE or beside & _WINDOWS):
        return "UpdateContainerResourcesRequest"
    pod = isinstance(metadata, Mapping) and not metadata.keys().isdisjoint(("uid", "namespace"))
    beyond = names & {"hostname", "log_directory", "dns_config", "port_mappings"}
    return "PodSandboxConfig" if pod or beyond or inner & _OF_SANDBOX else "ContainerConfig"


def _on_host(config: Mapping[str, Any]) -> bool:
    """Whether a Windows config is of a container on the host itself."""
    context = config.get("security_context", config.get("securityContext"))
    if not isinstance(context, Mapping):
        return False
    return bool(context.get("host_process", context.get("hostProcess")))


def _of_windows(
    given: Mapping[str, Any], name: str, where: str, path: str, on_host: bool = False
) -> ResourceBlock:
    at = spot(where, path)
    fields = fields_of(fields_in(given, where, path), at)
    return ResourceBlock(name, at, structs.replace(fields, host_process=on_host))


def _parts(
    fields: Mapping[str, Any], message: str, name: str, where: str, path: str
) -> Iterator[ResourceBlock]:
    """The resources, and the overhead of a sandbox."""
    sandbox = "overhead" in MESSAGES[message]
    for key in ("resources", "overhead"):
        value = fields.get(key)
        if value:
            label = f"{name} {key}".strip() if key == "overhead" else name
            sent = message_of(value, where, child(path, key))
            yield ResourceBlock(label, where, CriSandbox(sent) if sandbox else sent)
        elif key == "resources" and not sandbox:
            yield ResourceBlock(name, where, Message(CriResources()))
