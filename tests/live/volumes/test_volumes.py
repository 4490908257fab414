"""Memory-backed volumes on this kernel: what containers see, who is charged, what is given back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from qoslet.core.workload.process_spec import MemoryVolume, VolumeMount
from qoslet.errors import CannotDo
from qoslet.host.containers.mount_namespace import DEVICE
from qoslet.host.containers.spawn import StartFailed
from qoslet.host.containers.tmpfs_volumes import LARGE_BYTES, TmpfsVolumes
from qoslet.host.linux.mountinfo import mounts
from tests.live.memory.cgroups import MIB, Ground, ground

__all__ = ["ground"]

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

CACHE = [MemoryVolume("cache", 24 * MIB)]
LARGE = [MemoryVolume("cache", 2 * LARGE_BYTES)]
AT_MNT = [VolumeMount("cache", "/mnt")]


def given_back(ground: Ground, group: str) -> None:
    """No volume is charged to a group; what a container prints may stand on a tmpfs, too."""
    ground.until(lambda: ground.shmem(group) < MIB // 4, "its memory is given back")


def table() -> list[tuple[str, str, str]]:
    """The mounts that this process sees, without those that systemd makes for a service."""
    return [
        (one.point, one.type, one.source)
        for one in mounts()
        if not one.point.startswith("/run/credentials/")
    ]


# The host's own directories, a new one at the top, one in a directory with files, links and
# directories, one in another volume, and a link of the host on the way (/var/run).
PLACES = ["/mnt", "/qoslet-new/deep/er", "/etc/qoslet-new", "/dev/shm", "/var/run/qoslet-new"]


@pytest.mark.alone
@pytest.mark.parametrize("path", PLACES)
def test_a_container_sees_its_volume_and_the_host_nothing(
    ground: Ground, path: str, record_property
) -> None:
    before = table(), sorted(os.listdir("/")), sorted(os.listdir("/etc"))
    names = "for d in / /etc; do for n in $(ls -A $d); do echo $d $n; done; done"
    script = (
        f"echo hello >{path}/x && stat -f -c %T {path} && {names} && head -c 4 /proc/self/status "
        "&& test -c /dev/null && grep -q ^root: /etc/passwd && pwd && echo fine"
    )
    code, out = ground.run(None, script, [VolumeMount("cache", path)], "u1", CACHE)
    assert code == 0, out
    lines = out.splitlines()
    assert lines[0] == "tmpfs"
    assert lines[-2:] == ["Name/", "fine"]
    host = {f"/ {name}" for name in before[1]} | {f"/etc {name}" for name in before[2]}
    assert host <= set(lines)
    assert (ground.folder / "volumes/u1/cache/x").read_text() == "hello\n"
    volume = (str(ground.folder / "volumes/u1/cache"), "tmpfs", DEVICE)
    assert sorted([*before[0], volume]) == sorted(table())
    assert (sorted(os.listdir("/")), sorted(os.listdir("/etc"))) == before[1:]
    record_property("compared", len(host))


def test_volumes_stand_in_each_other_and_in_parts(ground: Ground) -> None:
    volumes = [*CACHE, MemoryVolume("other", MIB, 55)]
    wanted = [
        VolumeMount("cache", "/mnt/other/cache", sub_path="a/b"),
        VolumeMount("other", "/mnt"),
        VolumeMount("cache", "/srv", True),
    ]
    script = """
        echo 1 >/mnt/other/cache/x; cat /srv/a/b/x
        echo 2 >/srv/y || echo read-only
        stat -c '%a %g' /mnt /mnt/other/cache
    """
    code, out = ground.run(None, script, wanted, "u1", volumes)
    assert code == 0
    lines = [line for line in out.splitlines() if "Read-only" not in line]
    assert lines == ["1", "read-only", "3777 55", "777 0"]


REFUSED = [
    (VolumeMount("cache", "/etc/passwd"), "is no directory here"),
    (VolumeMount("cache", "/etc/passwd/x"), "Not a directory"),
    (VolumeMount("cache", "/mnt", sub_path="link"), "neither directory nor file"),
    (VolumeMount("cache", "/mnt", sub_path="link/x"), "the parent of x is not a directory"),
    (VolumeMount("cache", "/mnt", sub_path="file/x"), "the parent of x is not a directory"),
    (VolumeMount("cache", "/mnt", sub_path="file"), "is a directory here"),
]


@pytest.mark.parametrize(("mount", "reason"), REFUSED)
def test_what_cannot_be_mounted_is_one_line(
    ground: Ground, mount: VolumeMount, reason: str
) -> None:
    code, _ = ground.run(None, "ln -s /etc /mnt/link; echo >/mnt/file", AT_MNT, "u1", CACHE)
    assert code == 0
    with pytest.raises(StartFailed) as failed:
        ground.begin(None, "true", [mount], "u1", CACHE)
    assert reason in failed.value.reason
    assert failed.value.reason.startswith("volume cache")
    assert "\n" not in failed.value.reason


def test_a_directory_with_many_names_is_not_covered(ground: Ground, tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / str(number)).touch()
    with pytest.raises(StartFailed, match="create it on the host first"):
        ground.begin(None, "true", [VolumeMount("cache", f"{tmp_path}/new")], "u1", CACHE)
    assert not (tmp_path / "new").exists()


def test_links_of_containers_lead_nowhere_on_the_host(ground: Ground, tmp_path: Path) -> None:
    (tmp_path / "bait").mkdir()
    code, _ = ground.run(None, f"ln -s {tmp_path}/bait /mnt/link", AT_MNT, "u1", CACHE)
    assert code == 0
    wanted = [*AT_MNT, VolumeMount("cache", "/mnt/link/new")]
    code, out = ground.run(None, "echo x >/mnt/link/new/file; ls /mnt", wanted, "u1", CACHE)
    assert (code, out) == (0, "file\nlink\n")
    assert os.listdir(tmp_path / "bait") == []


def test_a_source_that_is_not_mounted_is_refused(ground: Ground) -> None:
    path = ground.volumes.provide("u1", CACHE)["cache"]
    subprocess.run(["umount", path], check=True)
    sources = {"cache": path}

    class Bare(TmpfsVolumes):
        def provide(self, uid, volumes):
            return sources

    ground.volumes = Bare(str(ground.folder / "volumes"))
    with pytest.raises(StartFailed, match="nothing is mounted on"):
        ground.begin(None, "true", AT_MNT, "u1", CACHE)


def test_the_pod_is_charged_over_restarts_until_it_is_gone(ground: Ground) -> None:
    ground.need_memory()
    pod = ground.make("kubepods/pod1", 128 * MIB)
    app = ground.make("kubepods/pod1/app", 128 * MIB)
    fill = "dd if=/dev/zero of=/mnt/data bs=1M count=20 2>/dev/null; echo $?; sleep 1000"
    first = ground.begin(app, fill, AT_MNT, "u1", CACHE)
    ground.until(lambda: ground.output.read_text() == "0\n", "20 MiB are written")
    assert ground.kill(first) == 128 + 9
    ground.until(lambda: ground.groups.strike(app), "nobody is left")
    for group in (app, pod):
        assert ground.memory(group) >= 20 * MIB, "charged to who wrote it, after its death"
        assert ground.shmem(group) >= 20 * MIB
    look = "stat -c %s /mnt/data; dd if=/dev/zero of=/mnt/more bs=1M count=10"
    code, out = ground.run(app, look, AT_MNT, "u1", CACHE)
    assert code != 0
    assert out.startswith(f"{20 * MIB}\n"), "the restarted container finds its data"
    assert "No space left on device" in out, "sizeLimit"
    assert ground.shmem(pod) >= 24 * MIB
    ground.until(lambda: ground.groups.strike(app), "nobody is left")
    ground.volumes.remove("u1")
    given_back(ground, pod)
    assert ground.memory(pod) < 8 * MIB
    assert ground.remove(pod) == []
    given_back(ground, f"{ground.root}/kubepods")
    assert ground.volumes.existing() == {}
    assert not any(str(ground.folder) in one.point for one in mounts())


def test_a_volume_counts_against_the_pods_limit(ground: Ground) -> None:
    ground.need_memory()
    neighbour = ground.make("kubepods/pod2/app", 64 * MIB)
    other = ground.begin(neighbour, "exec sleep 1000", uid="u2")
    pod = ground.make("kubepods/pod1", 24 * MIB)
    app = ground.make("kubepods/pod1/app")
    volumes = [MemoryVolume("cache", 200 * MIB)]
    code, out = ground.run(
        app, "exec dd if=/dev/zero of=/mnt/data bs=1M count=100", AT_MNT, "u1", volumes
    )
    assert code == 128 + 9, out
    assert ground.oom_kills(app) >= 1
    assert ground.memory(pod) <= 24 * MIB
    assert ground.oom_kills(neighbour) == 0
    assert os.waitid(os.P_PIDFD, other.pidfd, os.WEXITED | os.WNOHANG) is None
    ground.volumes.remove("u1")
    given_back(ground, pod)


def test_containers_of_one_pod_do_not_hold_the_volumes_of_others(ground: Ground) -> None:
    ground.need_memory()
    theirs = ground.make("kubepods/pod1/app")
    ground.run(theirs, "head -c 20971520 /dev/zero >/mnt/data", AT_MNT, "u1", CACHE)
    assert ground.shmem(theirs) >= 20 * MIB
    for path in ("/mnt", "/qoslet-new", "/etc/qoslet-new"):
        ground.begin(
            None, "exec sleep 1000", [VolumeMount("own", path)], "u2", [MemoryVolume("own")]
        )
    ground.volumes.remove("u1")
    given_back(ground, theirs)


def test_volumes_of_a_killed_agent_are_found_with_their_data(ground: Ground) -> None:
    script = (
        "import os, signal, sys\n"
        "from qoslet.core.workload.process_spec import MemoryVolume\n"
        "from qoslet.host.containers.tmpfs_volumes import TmpfsVolumes\n"
        "paths = TmpfsVolumes(sys.argv[1]).provide('u1', [MemoryVolume('a'), MemoryVolume('b')])\n"
        "open(paths['a'] + '/x', 'w').write('kept')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script, f"{ground.folder}/volumes"], env=env)
    assert done.returncode == -9
    assert ground.volumes.existing() == {"u1": ("a", "b")}
    paths = ground.volumes.provide("u1", [MemoryVolume("a"), MemoryVolume("b")])
    assert Path(paths["a"], "x").read_text() == "kept"
    ground.volumes.remove("u1")
    ground.volumes.remove("u1")
    assert ground.volumes.existing() == {}


def test_a_large_volume_goes_beside_the_loop(ground: Ground) -> None:
    path = ground.volumes.provide("u1", LARGE)["cache"]
    with open(f"{path}/x", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, LARGE_BYTES + MIB)
        assert not ground.volumes.remove("u1")
        holder = f"process {os.getpid()} ("
        ground.until(lambda: holder in refusal(ground, "u1"), "it is told who holds it")
    ground.until(lambda: ground.volumes.remove("u1"), "it is gone")
    assert ground.volumes.existing() == {}
    again = ground.volumes.provide("u1", LARGE)["cache"]
    with open(f"{again}/x", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, LARGE_BYTES + MIB)
    assert not ground.volumes.remove("u1")
    assert not Path(ground.volumes.provide("u1", LARGE)["cache"], "x").exists(), "mounted anew"
    assert ground.volumes.remove("u1")


def refusal(ground: Ground, uid: str) -> str:
    """Why the volumes of a pod cannot be removed; empty while that goes on."""
    try:
        ground.volumes.remove(uid)
    except CannotDo as error:
        return str(error)
    return ""


def test_who_holds_a_volume_is_named_and_it_can_be_detached(ground: Ground) -> None:
    path = ground.volumes.provide("u1", CACHE)["cache"]
    holder = subprocess.Popen(["sleep", "1000"], cwd=path)
    try:
        with pytest.raises(CannotDo) as refused:
            ground.volumes.remove("u1")
        assert f"process {holder.pid} (" in str(refused.value)
        assert ground.volumes.existing() == {"u1": ("cache",)}
        with open(f"{path}/x", "w"), pytest.raises(CannotDo, match=f"process {os.getpid()} "):
            ground.volumes.remove("u1")
        ground.volumes.remove("u1", detach=True)
        assert ground.volumes.existing() == {}
        assert f"process {holder.pid} (" in ground.volumes.notes[-1]
    finally:
        holder.kill()
        holder.wait()


def test_a_size_follows_and_never_cuts_what_is_there(ground: Ground) -> None:
    path = ground.volumes.provide("u1", [MemoryVolume("cache", MIB)])["cache"]
    Path(path, "x").write_bytes(b"x" * (MIB // 2))

    def size() -> int:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize

    ground.volumes.provide("u1", [MemoryVolume("cache", 2 * MIB)])
    assert size() == 2 * MIB
    ground.volumes.provide("u1", [MemoryVolume("cache", MIB // 4)])
    assert size() == 2 * MIB
    assert "size unchanged" in ground.volumes.notes[-1]
    with pytest.raises(OSError, match="No space left"):
        Path(path, "y").write_bytes(b"y" * 2 * MIB)


def test_without_the_right_to_mount_the_reason_is_said(ground: Ground) -> None:
    script = (
        "import ctypes, os, sys\n"
        "from qoslet.core.workload.process_spec import MemoryVolume\n"
        "from qoslet.host.containers.tmpfs_volumes import TmpfsVolumes\n"
        "TmpfsVolumes(sys.argv[1]).provide('u1', [MemoryVolume('a')])\n"
    )

    def bound() -> None:
        import ctypes

        assert ctypes.CDLL(None).prctl(24, 21, 0, 0, 0) == 0, "CAP_SYS_ADMIN"

    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, f"{ground.folder}/volumes"]
    done = subprocess.run(command, env=env, preexec_fn=bound, capture_output=True, text=True)
    assert "CAP_SYS_ADMIN" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", ["..", "a/b", "", "."])
def test_names_are_plain(ground: Ground, name: str) -> None:
    with pytest.raises(CannotDo, match="is not a file name"):
        ground.volumes.provide("u1", [MemoryVolume(name)])
    with pytest.raises(CannotDo, match="is not a file name"):
        ground.volumes.remove(name)


def test_a_folder_that_others_may_enter_is_refused(ground: Ground) -> None:
    folder = ground.folder / "volumes"
    folder.mkdir(mode=0o755)
    with pytest.raises(CannotDo, match="other users can write"):
        ground.volumes.provide("u1", CACHE)
    folder.rmdir()
    folder.symlink_to("/tmp")
    with pytest.raises(CannotDo, match="cannot create the directory"):
        ground.volumes.provide("u1", CACHE)
    folder.unlink()


def test_volumes_that_last_are_not_hidden_in_a_namespace(ground: Ground) -> None:
    script = (
        "import sys\n"
        "from qoslet.core.workload.process_spec import MemoryVolume\n"
        "from qoslet.host.containers.tmpfs_volumes import TmpfsVolumes\n"
        "TmpfsVolumes(sys.argv[1], lasting=True).provide('u1', [MemoryVolume('a')])\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = ["unshare", "-m", sys.executable, "-c", script, f"{ground.folder}/volumes"]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert "are invisible to the next" in done.stderr.splitlines()[-1]
    TmpfsVolumes(f"{ground.folder}/volumes", lasting=True).provide("u1", [MemoryVolume("a")])


def test_containers_start_while_volumes_of_other_pods_come_and_go(ground: Ground) -> None:
    """The container's mount namespace follows the host's: what it would unmount may be gone."""
    churn = (
        "import ctypes, os, sys\n"
        "folder, device = sys.argv[1:]\n"
        "places = [f'{folder}/churn{number}'.encode() for number in range(40)]\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "print('begun', flush=True)\n"
        "while True:\n"
        "    for place in places:\n"
        "        os.mkdir(place)\n"
        "        libc.mount(device.encode(), place, b'tmpfs', 0, None)\n"
        "    for place in places:\n"
        "        libc.umount2(place, 2)\n"
        "        os.rmdir(place)\n"
    )
    command = [sys.executable, "-c", churn, str(ground.folder), DEVICE]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == b"begun\n"
            for number in range(30):
                mounted = [VolumeMount("cache", "/mnt")]
                code, out = ground.run(None, "echo fine", mounted, f"u{number}", CACHE)
                assert (code, out) == (0, "fine\n")
        finally:
            other.kill()
            other.wait()
            for number in range(40):
                place = ground.folder / f"churn{number}"
                subprocess.run(["umount", str(place)], stderr=subprocess.DEVNULL, check=False)
                if place.exists():
                    place.rmdir()
