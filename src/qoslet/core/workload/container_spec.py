"""What a container of an image asks of the runtime that runs it, and its pod of the sandbox.

These are values for any runtime that makes containers (CRI or OCI). What the kubelet works out for
the resources of a pod (``PodMessages``) goes along with them.

Source: core/v1 Container, SecurityContext; CRI ContainerConfig, LinuxContainerSecurityContext.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

Pull = Literal["Always", "IfNotPresent", "Never"]


class ContainerSpec(Struct, frozen=True, omit_defaults=True):
    """One container. ``uid`` and ``gid`` are None where the image decides; ``env`` holds the pod's
    own variables only. ``add`` and ``drop`` are capabilities without ``CAP_``. ``seccomp`` and
    ``apparmor`` are ``RuntimeDefault``, ``Unconfined``, ``Localhost/PROFILE`` or empty."""

    image: str
    pull: Pull = "IfNotPresent"
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    non_root: bool = False
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    privileged: bool = False
    read_only_root: bool = False
    no_new_privileges: bool = False
    seccomp: str = ""
    apparmor: str = ""
    tty: bool = False
    stdin: bool = False
    stdin_once: bool = False


class Sandbox(Struct, frozen=True, omit_defaults=True):
    """What the containers of a pod share. ``handler`` is the runtime class's."""

    hostname: str = ""
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    share_pid: bool = False
    handler: str = ""
    sysctls: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()


class PodMessages(Struct, frozen=True, omit_defaults=True):
    """The resources of a pod as a kubelet sends them, in the protobuf's field names (``linux_cri``).
    ``parent`` is the pod's group, ``containers`` are by name; ``resources`` and ``overhead`` are
    the sandbox's, None where they are not sent."""

    parent: str
    containers: Mapping[str, Mapping[str, Any]]
    resources: Mapping[str, Any] | None = None
    overhead: Mapping[str, Any] | None = None


def default_pull(image: str) -> Pull:
    """The pull policy of an image that gives none. Source: SetDefaults_Container."""
    name, at, _ = image.partition("@")
    if at:
        return "IfNotPresent"
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


class SeccompProfiles(Struct, frozen=True, omit_defaults=True):
    """Where the profiles of containers are: ``distribution`` is the file of ``RuntimeDefault``, empty
    where there is none, ``root`` the folder of Localhost profiles, empty where there is none.
    ``by_default``: who asks for no profile gets ``RuntimeDefault`` (``seccompDefault``).
    ``optional``: a container runs without a profile that cannot be loaded (``--unconfined``)."""

    distribution: str = ""
    root: str = ""
    by_default: bool = False
    optional: bool = False

    def of(self, asked: ContainerSpec) -> str:
        """The profile of a container; empty for none. A privileged one has none, as containerd
        gives it."""
        if asked.privileged or asked.seccomp == "Unconfined":
            return ""
        return asked.seccomp or ("RuntimeDefault" if self.by_default else "")


class OciRuntime(Struct, frozen=True, omit_defaults=True):
    """The OCI runtime that makes containers, and where it finds what it needs. ``program`` is its
    path; ``images`` are layouts and ``trees`` directories by the name of an image, as the owner
    named them; ``storage`` is the folder of unpacked images and of what containers write.
    ``systemd`` is the version of the systemd whose scopes they get, None where none is asked;
    ``untold`` are the files with amounts of which the runtime does not tell it."""

    name: Literal["runc", "crun"]
    program: str
    storage: str
    images: tuple[str, ...] = ()
    trees: tuple[tuple[str, str], ...] = ()
    systemd: int | None = None
    v2: bool = False
    untold: tuple[str, ...] = ()
    seccomp: SeccompProfiles = SeccompProfiles()


class PlannedBlock(Struct, frozen=True):
    """What the plan says of a container: ``linux.cgroupsPath`` and ``linux.resources``."""

    path: str
    resources: Mapping[str, Any]


class OciPod(Struct, frozen=True):
    """How a pod's containers are made where no CRI runtime does it."""

    engine: OciRuntime
    blocks: Mapping[str, PlannedBlock]
