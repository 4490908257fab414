"""A container of an OCI runtime on its way: what happens in a child of the keeper, until it becomes
the runtime.

The child finds the image, unpacks it if nobody has, puts a layer of the container's own on top,
writes ``config.json`` and executes ``run --detach``; the container's first process is then the
keeper's child, as if it had forked it. A lock on the container is held until the runtime is done, so
a keeper that was killed meanwhile leaves nothing half made to its successor.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from msgspec import Struct, json
from msgspec.structs import replace

from qoslet.core.workload.container_spec import ContainerSpec, PlannedBlock, SeccompProfiles
from qoslet.core.workload.env import DEFAULT_PATH
from qoslet.core.workload.fields import is_of_proc
from qoslet.core.workload.oci.bundle import PreparedContainer, bundle_config
from qoslet.core.workload.oci.image import Execution, architecture_of
from qoslet.core.workload.oci.image_reference import reference
from qoslet.core.workload.oci.oci_spec import Kind
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec, VolumeMount
from qoslet.core.workload.security.context import ALL_CAPABILITIES, CAPABILITIES
from qoslet.core.workload.security.seccomp import RUNTIME_DEFAULT
from qoslet.errors import CannotDo, QosletError, system_reason
from qoslet.host.containers.mount_namespace import inside
from qoslet.host.containers.spawn import default_signals
from qoslet.host.images.layout import NotFound, find
from qoslet.host.images.store import Store, private
from qoslet.host.images.users import user_of
from qoslet.host.linux.descriptors import owned, ready
from qoslet.host.linux.mount_syscalls import BIND, mount
from qoslet.host.linux.procfs import text
from qoslet.host.oci.bundle_folder import ContainerFiles
from qoslet.host.oci.seccomp_profiles import load_filter
from qoslet.host.oci.writable_layer import add_writable_layer

NOT_BEGUN = 125
"""Exit code of a child that did not get as far as the runtime, for want of something on this machine."""
REFUSED = 124
"""The same where the pod asks for what cannot be."""

FORGET_SECONDS = 20.0
"""How long a runtime may take to forget a container, and who still makes it to be done, before
that is said and tried again."""

KILL_SECONDS = 5.0
"""How much of that is for who still makes it to die."""

_LOCK_WAIT = 0.05

_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_ENV = {"PATH": DEFAULT_PATH}


class CreateRequest(Struct, frozen=True):
    """What a child makes. ``outputs`` are descriptors for the container's stdout and stderr, ``held``
    is that of its lock, -1 where the child has to wait for it."""

    place: ContainerFiles
    spec: PodSpec
    launch: ProcessSpec
    spaces: Mapping[Kind, str]
    outputs: Sequence[int]
    held: int = -1


class CreateRefused(Exception):
    """A container cannot be made as it is asked for."""


def take_lock(place: ContainerFiles) -> int:
    """The lock of a container, held for the child that is to make it: from its first moment on the
    next keeper waits for it. -1 where another still has it. Raises OSError, ValueError."""
    held = _open_lock(place)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return -1
    return held


def _open_lock(place: ContainerFiles) -> int:
    """The file of a container's lock, in folders of its pod. Raises OSError, ValueError."""
    private(os.path.dirname(place.pod))
    private(place.pod)
    return os.open(place.lock, _LOCK, 0o600)


def create_container(making: CreateRequest) -> NoReturn:
    """All that happens in the child: it becomes the runtime, or ends."""
    place, code = making.place, NOT_BEGUN
    try:
        _begin()
        held = making.held
        if held < 0:
            held = _open_lock(place)
            fcntl.flock(held, fcntl.LOCK_EX)
        forget(place)
        private(place.bundle)
        _prepare(making)
        null = os.open(os.devnull, os.O_RDONLY)
        for number, descriptor in enumerate((null, *making.outputs)):
            os.dup2(descriptor, number)
        words = place.command("run", "--detach", "--bundle", place.bundle)
        words += ["--pid-file", place.pid, place.id]
        # the container's processes have it from here
        os.umask(0o022)
        # the runtime holds the lock until it is done, and hands it to no container
        os.set_inheritable(held, True)
        os.execve(words[0], words, _ENV)
    except (CannotDo, NotFound, OSError, MemoryError) as error:
        _leave(place, error)
    except (QosletError, CreateRefused, ValueError) as error:
        code = REFUSED
        _leave(place, error)
    finally:
        os._exit(code)


def wait_for_create(place: ContainerFiles) -> NoReturn:
    """A child that ends once nobody is making the container any more."""
    try:
        _begin()
        fcntl.flock(os.open(place.lock, _LOCK, 0o600), fcntl.LOCK_EX)
        os._exit(0)
    except OSError as error:
        _leave(place, error)
    finally:
        os._exit(NOT_BEGUN)


def delete_container(place: ContainerFiles) -> NoReturn:
    """A child that makes the runtime forget the container and removes its files."""
    try:
        _begin()
        if os.path.isdir(place.pod):
            _lock_in_time(place)
        forget(place)
        os._exit(0)
    except (CreateRefused, OSError) as error:
        _leave(place, error)
    finally:
        os._exit(NOT_BEGUN)


def _lock_in_time(place: ContainerFiles) -> None:
    """Take the lock of a container. A runtime that keeps it is killed: its keeper, which would, was
    killed itself. Raises ``CreateRefused`` where another keeps it, OSError."""
    lock = os.open(place.lock, _LOCK, 0o600)
    ending = False
    deadline = time.monotonic() + FORGET_SECONDS
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline - KILL_SECONDS and not ending:
                ending = True
                _kill_runtime(place, lock)
            if time.monotonic() >= deadline:
                raise CreateRefused(
                    f"another process has held its lock for {FORGET_SECONDS:.0f} s (fuser {place.lock})"
                ) from None
        time.sleep(_LOCK_WAIT)


def _kill_runtime(place: ContainerFiles, lock: int) -> None:
    """Kill the runtime that makes the container: the process of its arguments with the lock open."""
    file = os.fstat(lock)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), owned(os.pidfd_open(int(pid))) as runtime:
            words = (text(f"/proc/{pid}/cmdline") or "").split("\0")
            opened = f"/proc/{pid}/fd"
            if place.id in words and any(
                os.path.samestat(os.stat(f"{opened}/{name}"), file) for name in os.listdir(opened)
            ):
                signal.pidfd_send_signal(runtime, signal.SIGKILL)


def _begin() -> None:
    """A session of its own, signals as a program finds them."""
    os.setsid()
    default_signals()
    os.umask(0o077)


def _leave(place: ContainerFiles, error: BaseException) -> None:
    """Last words, for who reads them."""
    said = system_reason(error) if isinstance(error, OSError) else str(error)
    with suppress(OSError):
        os.makedirs(place.bundle, 0o700, exist_ok=True)
        _write(place.error, said.encode("utf-8", "replace")[:4000])


def forget(place: ContainerFiles) -> None:
    """The runtime ends and forgets a container of before; its files go. Raises ``CreateRefused``,
    OSError."""
    if place.known:
        place.forget_errors()
        words = place.command("delete", "--force", place.id)
        how = _end_of(os.posix_spawn(words[0], words, _ENV, setsigdef=[signal.SIGTERM]))
        if place.known:
            raise CreateRefused(f"{place.engine.name} delete: {place.runtime_error() or how}")
    place.clear()


def _end_of(pid: int) -> str:
    """How a runtime ended; one that hangs is killed."""
    with owned(os.pidfd_open(pid)) as watched:
        in_time = ready(watched, seconds=FORGET_SECONDS)
    if not in_time:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if not in_time:
        return f"not done within {FORGET_SECONDS:.0f} s"
    return f"exit code {os.waitstatus_to_exitcode(status)}"


def _prepare(making: CreateRequest) -> None:
    """The bundle, ready to run."""
    place, spec, launch = making.place, making.spec, making.launch
    asked, pod = launch.contained, spec.sandbox
    assert asked is not None
    assert pod is not None
    assert spec.bundles is not None
    engine = place.engine
    tree, execution = _image(place, asked.image)
    user = user_of(tree, execution.user, asked.uid, asked.gid, asked.groups)
    if asked.non_root and user.uid == 0:
        raise CreateRefused(f"runAsNonRoot is set and {asked.image} would run as root")
    for output in making.outputs:
        os.fchown(output, user.uid, user.gid)
    add_writable_layer(place, tree)
    found = PreparedContainer(
        execution,
        user,
        place.rootfs,
        making.spaces,
        _files(place, pod.host_network, pod.hostname),
        [_bound(place, number, one) for number, one in enumerate(launch.mounts)],
        _able(),
        engine.systemd,
        engine.untold,
    )
    nothing = PlannedBlock("", {})
    planned = spec.bundles.blocks.get(launch.name, nothing)
    if not planned.path:
        raise CreateRefused("the plan has no cgroup for it")
    launch = _scored(place, launch, found.able)
    made = bundle_config(pod, launch, planned, found, v2=engine.v2)
    process = made["process"]
    if any("\0" in word for word in (*process["args"], *process["env"], process["cwd"])):
        # the manifest's were refused as it was read; crun would take what stands before it
        raise CreateRefused(f"{asked.image}: its command, environment or directory has a NUL in it")
    if is_of_proc(process["cwd"]):
        raise CreateRefused(
            f"{asked.image}: its working directory {process['cwd']!r} is below /proc"
        )
    if seccomp := _filter(engine.seccomp, asked, process["capabilities"]["bounding"]):
        made["linux"]["seccomp"] = seccomp
    _write(place.config, json.encode(made))


def _filter(
    profiles: SeccompProfiles, asked: ContainerSpec, bounding: Sequence[str]
) -> Mapping[str, Any] | None:
    """``linux.seccomp``, None for no filter. Raises ``CreateRefused``."""
    profile = profiles.of(asked)
    folder = profiles.distribution if profile == RUNTIME_DEFAULT else profiles.root
    if not profile or not folder:
        # where there is none it was refused as it was read, unless it may run without
        return None
    try:
        return load_filter(profile, profiles.distribution, profiles.root, frozenset(bounding))
    except (ValueError, OSError) as error:
        if profiles.optional:
            return None
        said = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise CreateRefused(f"the seccomp profile {said}") from error


def _able() -> frozenset[int]:
    """The capabilities of this process; all where it cannot tell."""
    for line in (text("/proc/self/status") or "").splitlines():
        if line.startswith("CapPrm:"):
            held = int(line.split()[1], 16)
            return frozenset(number for number in range(64) if held >> number & 1)
    return ALL_CAPABILITIES


def _scored(place: ContainerFiles, launch: ProcessSpec, able: frozenset[int]) -> ProcessSpec:
    """A container with the score that can be had: without CAP_SYS_RESOURCE nobody's can be below
    that of this process, and every runtime fails over it. Source: proc(5) oom_score_adj;
    containerd restrict_oom_score_adj."""
    score, own = launch.oom_score_adj, (text("/proc/self/oom_score_adj") or "0").strip()
    if score is None or score >= int(own) or CAPABILITIES["SYS_RESOURCE"] in able:
        return launch
    _write(place.notes, f"oom_score_adj {score} needs CAP_SYS_RESOURCE: it gets {own}".encode())
    return replace(launch, oom_score_adj=int(own))


def _image(place: ContainerFiles, name: str) -> tuple[str, Execution]:
    """The file tree of an image, and what it says of its process. Raises ValueError, ``NotFound``,
    OSError."""
    engine = place.engine
    for tree, path in engine.trees:
        if tree == name:
            return path, Execution()
    image = find(engine.images, reference(name), architecture_of(os.uname().machine))
    return Store(engine.storage).unpacked(image), image.execution


def _bound(place: ContainerFiles, number: int, one: VolumeMount) -> VolumeMount:
    """A mount with a source that no container can turn elsewhere meanwhile: the place inside the
    volume is mounted in the bundle, as it was found."""
    if not one.sub_path:
        return one
    os.umask(0)
    at = inside(one)
    os.umask(0o077)
    point = place.part(number)
    if stat.S_ISDIR(os.fstat(at).st_mode):
        os.mkdir(point, 0o700)
    else:
        _write(point, b"")
    mount(f"/proc/self/fd/{at}", point, "", BIND)
    os.close(at)
    return replace(one, source=point)


def _files(place: ContainerFiles, host_network: bool, hostname: str) -> dict[str, str]:
    """``/etc/hosts``, ``/etc/hostname`` and ``/etc/resolv.conf``: the host's on the host's
    network, else what a pod knows of itself. All containers of the pod share them."""
    made = {}
    for name in ("hosts", "hostname", "resolv.conf"):
        path = f"{place.pod}/{name}"
        if not os.path.exists(path):
            own = f"127.0.0.1\tlocalhost {hostname}\n::1\tlocalhost ip6-localhost\n"
            texts = {"hosts": own, "hostname": f"{hostname}\n", "resolv.conf": ""}
            data = _host_file(f"/etc/{name}") if host_network else texts[name].encode()
            _write(f"{path}.{os.getpid()}", data, 0o644)
            os.rename(f"{path}.{os.getpid()}", path)
        made[f"/etc/{name}"] = path
    return made


def _host_file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(1024 * 1024)
    except OSError:
        return b""


def _write(path: str, data: bytes, mode: int = 0o600) -> None:
    """A file with this in it."""
    with owned(os.open(path, _FILE, mode)) as descriptor:
        os.fchmod(descriptor, mode)
        while data:
            data = data[os.write(descriptor, data) :]
