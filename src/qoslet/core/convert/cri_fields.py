"""The CRI messages around a resource block: their fields, and checks of them.

Names are the protobuf's or those of its JSON form. Unknown names are problems, not errors: a later
release may have them. The resources inside are read by ``cri_message`` and ``windows_fields``.
Source: cri-api runtime.v1 api.proto; protobuf's JSON mapping.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from qoslet.core.api.input.unknown_fields import literal, unknown
from qoslet.core.api.schema import child
from qoslet.core.problem import Problem
from qoslet.errors import BadInput

_MESSAGES = """
CreateContainerRequest: pod_sandbox_id string, config ContainerConfig,
  sandbox_config PodSandboxConfig
RunPodSandboxRequest: config PodSandboxConfig, runtime_handler string
UpdateContainerResourcesRequest: container_id string, linux Resources, windows Resources,
  annotations map
UpdatePodSandboxResourcesRequest: pod_sandbox_id string, overhead Resources, resources Resources
ContainerConfig: metadata ContainerMetadata, image ImageSpec, command string*, args string*,
  working_dir string, envs KeyValue*, mounts Mount*, devices Device*, labels map,
  annotations map, log_path string, stdin bool, stdin_once bool, tty bool,
  linux LinuxContainerConfig, windows WindowsContainerConfig, CDI_devices CDIDevice*,
  stop_signal Signal
ContainerMetadata: name string, attempt uint32
ImageSpec: image string, annotations map, user_specified_image string, runtime_handler string,
  image_ref string
KeyValue: key string, value string
Mount: container_path string, host_path string, readonly bool, selinux_relabel bool,
  propagation MountPropagation, uidMappings IDMapping*, gidMappings IDMapping*,
  recursive_read_only bool, image ImageSpec, image_sub_path string
IDMapping: host_id uint32, container_id uint32, length uint32
Device: container_path string, host_path string, permissions string
CDIDevice: name string
LinuxContainerConfig: resources Resources, security_context LinuxContainerSecurityContext
LinuxContainerSecurityContext: capabilities Capability, privileged bool,
  namespace_options NamespaceOption, selinux_options SELinuxOption, run_as_user Int64Value,
  run_as_group Int64Value, run_as_username string, readonly_rootfs bool,
  supplemental_groups int64*, supplemental_groups_policy SupplementalGroupsPolicy,
  no_new_privs bool, masked_paths string*, readonly_paths string*, seccomp SecurityProfile,
  apparmor SecurityProfile, apparmor_profile string, seccomp_profile_path string
Capability: add_capabilities string*, drop_capabilities string*, add_ambient_capabilities string*
NamespaceOption: network NamespaceMode, pid NamespaceMode, ipc NamespaceMode, target_id string,
  userns_options UserNamespace
UserNamespace: mode NamespaceMode, uids IDMapping*, gids IDMapping*
SELinuxOption: user string, role string, type string, level string
Int64Value: value int64
SecurityProfile: profile_type ProfileType, localhost_ref string
PodSandboxConfig: metadata PodSandboxMetadata, hostname string, log_directory string,
  dns_config DNSConfig, port_mappings PortMapping*, labels map, annotations map,
  linux LinuxPodSandboxConfig, windows WindowsPodSandboxConfig
PodSandboxMetadata: name string, uid string, namespace string, attempt uint32
DNSConfig: servers string*, searches string*, options string*
PortMapping: protocol Protocol, container_port int32, host_port int32, host_ip string
LinuxPodSandboxConfig: cgroup_parent string, security_context LinuxSandboxSecurityContext,
  sysctls map, overhead Resources, resources Resources
LinuxSandboxSecurityContext: namespace_options NamespaceOption, selinux_options SELinuxOption,
  run_as_user Int64Value, run_as_group Int64Value, readonly_rootfs bool,
  supplemental_groups int64*, supplemental_groups_policy SupplementalGroupsPolicy,
  privileged bool, seccomp SecurityProfile, apparmor SecurityProfile,
  seccomp_profile_path string
WindowsContainerConfig: resources Resources, security_context WindowsContainerSecurityContext
WindowsContainerSecurityContext: run_as_username string, credential_spec string,
  host_process bool
WindowsPodSandboxConfig: security_context WindowsSandboxSecurityContext
WindowsSandboxSecurityContext: run_as_username string, credential_spec string, host_process bool,
  namespace_options WindowsNamespaceOption
WindowsNamespaceOption: network NamespaceMode
"""

_SIGNALS = (
    "RUNTIME_DEFAULT SIGABRT SIGALRM SIGBUS SIGCHLD SIGCLD SIGCONT SIGFPE SIGHUP SIGILL SIGINT "
    "SIGIO SIGIOT SIGKILL SIGPIPE SIGPOLL SIGPROF SIGPWR SIGQUIT SIGSEGV SIGSTKFLT SIGSTOP SIGSYS "
    "SIGTERM SIGTRAP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGUSR1 SIGUSR2 SIGVTALRM SIGWINCH SIGXCPU "
    "SIGXFSZ SIGRTMIN"
)
ENUMS: dict[str, tuple[str, ...]] = {
    "NamespaceMode": ("POD", "CONTAINER", "NODE", "TARGET"),
    "MountPropagation": (
        "PROPAGATION_PRIVATE",
        "PROPAGATION_HOST_TO_CONTAINER",
        "PROPAGATION_BIDIRECTIONAL",
    ),
    "SupplementalGroupsPolicy": ("Merge", "Strict"),
    "ProfileType": ("RuntimeDefault", "Unconfined", "Localhost"),
    "Protocol": ("TCP", "UDP", "SCTP"),
    "Signal": (
        *_SIGNALS.split(),
        *(f"SIGRTMINPLUS{number}" for number in range(1, 16)),
        *(f"SIGRTMAXMINUS{number}" for number in range(14, 0, -1)),
        "SIGRTMAX",
    ),
}
"""The values of each enumeration, numbered from 0."""

_RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}


def _tables() -> Iterator[tuple[str, dict[str, str]]]:
    for line in _MESSAGES.replace(",\n ", ",").strip().split("\n"):
        name, _, fields = line.partition(": ")
        pairs = (field.split() for field in fields.split(","))
        yield name, dict(pairs)


MESSAGES = dict(_tables())
"""The fields of each message with their types; ``*`` marks repeated fields."""


def json_name(field: str) -> str:
    """A field as protobuf's JSON form spells it: ``cpu_quota`` is ``cpuQuota``."""
    first, *rest = field.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


_SPELLED = {
    message: {name: field for field in fields for name in (field, json_name(field))}
    for message, fields in MESSAGES.items()
}


def spot(where: str, path: str) -> str:
    """The place of a field in messages."""
    return ": ".join(filter(None, (where, path)))


def number_of(value: object, where: str, kind: str = "int64") -> int:
    """A whole number of that type, also as text, as protobuf's JSON prints it. Raises BadInput."""
    if isinstance(value, str) and value.isascii() and len(value) < 21:
        value = int(value) if value.removeprefix("-").isdecimal() else value
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(f"expected `int`, got {literal(value)}", where=where)
    least, most = _RANGES[kind]
    if value < least == 0:
        raise BadInput("expected `int` >= 0", where=where)
    if not least <= value <= most:
        raise BadInput(f"does not fit {kind.removeprefix('u')[3:]} bits", where=where)
    return value


def check(
    given: Mapping[str, Any], message: str, where: str, path: str, problems: list[Problem]
) -> dict[str, Any]:
    """A message's fields in the protobuf's spelling; nested messages are checked, not respelled.

    Raises BadInput for the first field that has another type or is given twice. Adds a row to
    ``problems`` for each unknown field.
    """
    kinds, spelled = MESSAGES[message], _SPELLED[message]
    fields: dict[str, Any] = {}
    for name, value in given.items():
        place = child(path, str(name))
        field = spelled.get(name)
        if field is None:
            problems.append(unknown(where, place, message, tuple(spelled)))
            continue
        if value is None:
            continue
        if field in fields:
            raise twice(field, spot(where, place))
        fields[field] = value
        _value(value, kinds[field], where, place, problems)
    return fields


def twice(field: str, where: str) -> BadInput:
    """The error of a field that is given in both of its spellings."""
    hint = f"{field} and {json_name(field)} are the same field"
    return BadInput("is given twice", where=where, hint=hint)


def _value(value: Any, kind: str, where: str, path: str, problems: list[Problem]) -> None:
    at = spot(where, path)
    if kind.endswith("*"):
        if not isinstance(value, list):
            raise BadInput(f"expected `array`, got {literal(value)}", where=at)
        for number, item in enumerate(value):
            _value(item, kind[:-1], where, f"{path}[{number}]", problems)
    elif kind in _RANGES:
        number_of(value, at, kind)
    elif kind in ENUMS:
        _enum(value, ENUMS[kind], at)
    elif kind == "string" and not isinstance(value, str):
        raise BadInput(f"expected `str`, got {literal(value)}", where=at)
    elif kind == "bool" and not isinstance(value, bool):
        raise BadInput(f"expected `bool`, got {literal(value)}", where=at)
    elif kind not in ("string", "bool"):
        _inner(value, kind, where, path, problems)


def _inner(value: Any, kind: str, where: str, path: str, problems: list[Problem]) -> None:
    if not isinstance(value, Mapping):
        raise BadInput(f"expected `object`, got {literal(value)}", where=spot(where, path))
    if kind == "map":
        for key, text in value.items():
            if not isinstance(text, str):
                at = spot(where, child(path, str(key)))
                raise BadInput(f"expected `str`, got {literal(text)}", where=at)
    elif kind in MESSAGES:
        check(value, kind, where, path, problems)


def _enum(value: Any, names: tuple[str, ...], where: str) -> None:
    if value in names or (type(value) is int and 0 <= value < len(names)):
        return
    choices = [f"{name} ({number})" for number, name in enumerate(names)]
    expected = " or ".join(filter(None, (", ".join(choices[:-1]), choices[-1])))
    if len(choices) > 8:
        expected = f"{choices[0]} to {choices[-1]}"
    raise BadInput(f"is {literal(value)}, must be {expected}", where=where)
