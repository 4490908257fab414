"""The volumes of pods, each kind where it belongs: data in memory and Secrets on a tmpfs of their
own, other files and ``emptyDir`` on disk, paths of the host where they are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from qoslet.core.workload.folders.types import FilesVolume, HostVolume
from qoslet.core.workload.process_spec import MemoryVolume, PodVolume
from qoslet.errors import MACHINE_HINTS, CannotDo
from qoslet.host.containers.disk_volumes import DiskVolumes, disk_directory
from qoslet.host.containers.host_paths import host_path
from qoslet.host.containers.payload import write_payload
from qoslet.host.containers.tmpfs_volumes import TmpfsVolumes
from qoslet.host.state.folder import VOLUMES


class PodVolumes:
    """Matches ``agent.ports.Volumes``. ``folder`` is the state folder of a root, ``disk`` the
    directory for what is on disk; with ``lasting`` a later process takes the volumes up."""

    def __init__(self, folder: str, disk: str = "", *, lasting: bool = False) -> None:
        self._tmpfs = TmpfsVolumes(f"{folder}/{VOLUMES}", lasting=lasting)
        ours = disk_directory(os.environ, os.geteuid(), folder)
        self._disk = DiskVolumes(disk) if disk else DiskVolumes(ours, os.path.dirname(ours))

    @property
    def notes(self) -> list[str]:
        """What was not done and stops nothing."""
        return [*self._tmpfs.notes, *self._disk.notes]

    def provide(self, uid: str, volumes: Sequence[PodVolume]) -> Mapping[str, str]:
        """Create what does not exist yet and bring files up to date; the path of each volume by
        its name."""
        memory = [one for one in volumes if isinstance(one, MemoryVolume)]
        secrets = [one for one in volumes if isinstance(one, FilesVolume) and one.secret]
        places = dict(
            self._tmpfs.provide(uid, [*memory, *(MemoryVolume(one.name) for one in secrets)])
        )
        for volume in volumes:
            if isinstance(volume, MemoryVolume):
                continue
            where = places.get(volume.name, "")
            try:
                places[volume.name] = self._provide(uid, volume, where)
            except (OSError, ValueError) as error:
                why, hint = str(error), "check the directory"
                if isinstance(error, OSError):
                    why, hint = str(error.strerror), MACHINE_HINTS.get(error.errno or 0, hint)
                message = f"volume {volume.name} cannot be set up: {why}"
                raise CannotDo(message, where=where, hint=hint) from error
        return places

    def _provide(self, uid: str, volume: PodVolume, where: str) -> str:
        """One volume; ``where`` is its tmpfs, if it has one."""
        if isinstance(volume, HostVolume):
            return host_path(volume)
        if isinstance(volume, FilesVolume) and volume.secret:
            os.chmod(where, 0o755)
            write_payload(where, volume.files, volume.group)
            return where
        assert not isinstance(volume, MemoryVolume)
        return self._disk.provide(uid, volume)

    def remove(self, uid: str, *, detach: bool = False) -> bool:
        """Remove every volume of a pod; what is on disk goes in a thread. False: a large tmpfs is
        still being freed. With ``detach`` one that is in use goes out of sight, its memory with the
        last holder."""
        gone = self._tmpfs.remove(uid, detach=detach)
        if gone:
            self._disk.remove(uid)
        return gone

    @property
    def on_disk(self) -> bool:
        """Whether anything is on disk, of an earlier boot, too."""
        return self._disk.is_there

    def existing(self) -> Mapping[str, tuple[str, ...]]:
        """The names of all volumes that exist, by pod UID."""
        disk, tmpfs = self._disk.existing(), self._tmpfs.existing()
        uids = sorted(disk.keys() | tmpfs.keys())
        return {uid: tuple(sorted({*disk.get(uid, ()), *tmpfs.get(uid, ())})) for uid in uids}

    def collect(self) -> None:
        """Go on removing what an earlier agent did not get done with."""
        self._disk.collect()

    def remove_all(self) -> None:
        """Remove what is on disk for pods of this root, once there are none."""
        for uid in self._disk.existing():
            self._disk.remove(uid)
        self.finish()

    def finish(self) -> None:
        """Wait until all that is removed is gone."""
        self._disk.finish()
