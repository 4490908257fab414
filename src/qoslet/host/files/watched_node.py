"""Whether the files that describe a node are others than they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qoslet.host.files.manifest_names import drop_ins
from qoslet.host.files.manifests import STREAMS
from qoslet.host.files.watched_manifests import ManifestFiles
from qoslet.host.linux.inotify import DirectoryWatch, Inotify


class NodeFiles:
    """The files at ``paths``, followed like manifests, with the drop-ins that are there: a file that is being written is one that
    has not changed yet, and one that is replaced by a rename has. What can be read once
    (``-``) is not followed. ``clock`` gives monotonic seconds. With ``strict`` a file that another
    user can change is not read."""

    def __init__(
        self,
        paths: Sequence[str],
        clock: Callable[[], float],
        *,
        strict: bool = False,
        watch: Callable[[], DirectoryWatch] = Inotify,
    ) -> None:
        kept = [path for path in paths if path != "-" and not path.startswith(STREAMS)]
        kept += [file for path in kept for file in drop_ins(path)]
        self._files = ManifestFiles(kept, clock, strict=strict, watch=watch) if kept else None
        self.changed()

    def changed(self) -> bool:
        """Whether any of them is another than when this was asked last: also where it has come,
        gone or cannot be read since."""
        return self._files is not None and bool(self._files.changes())

    def descriptors(self) -> list[int]:
        """Readable when ``changed`` may be so."""
        return [] if self._files is None else self._files.descriptors()

    def close(self) -> None:
        """Follow nothing any more."""
        if self._files is not None:
            self._files.close()
