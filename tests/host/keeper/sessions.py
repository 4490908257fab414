"""Control groups made of nothing but an environment variable, for tests without rights."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path

from qoslet.host.keeper.protocol import KeeperSettings
from qoslet.host.keeper.server import main


class Sessions:
    """Matches ``groups.Groups``: a process is in the group that its ``GROUP`` names."""

    def join_fds(self, path: str) -> list[int]:
        return []

    def members(self, path: str) -> set[int]:
        found = set()
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                text = Path(f"/proc/{entry}/environ").read_bytes()
                state = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if f"GROUP={path}\0".encode() in text and state != "Z":
                found.add(int(entry))
        return found

    def identity(self, path: str) -> int | None:
        return None

    def oom_kills(self, path: str) -> int | None:
        return None

    def ends_with_oom_kill(self, path: str) -> bool:
        return False

    def tidy(self, paths: Iterable[str]) -> None:
        pass

    def frozen(self, path: str) -> str | None:
        return None

    def strike(self, path: str) -> bool:
        found = self.members(path)
        for pid in found:
            self._kill(path, pid)
        return not found

    def _kill(self, path: str, pid: int) -> None:
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return
        try:
            if pid in self.members(path):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except ProcessLookupError:
            return
        finally:
            os.close(descriptor)


def keep() -> None:
    """A keeper with such groups, which looks often whether its files are there."""

    def groups(_: KeeperSettings) -> Sessions:
        return Sessions()

    main(groups, check_seconds=0.3)


def watched(boot: str, file: Path) -> str:
    """A keeper's program that writes down, from the moment on at which it has been imported, the
    name of every module that it or a child of it asks for."""
    head, _, call = boot.rpartition("; ")
    note = f"open({str(file)!r}, 'a').write(name + chr(10)) and None"
    finder = f"type('Finder', (), {{'find_spec': staticmethod(lambda name, *_: {note})}})"
    return f"{head}; sys.meta_path.insert(0, {finder}); {call}"


def asked(file: Path) -> set[str]:
    """What was written down."""
    return set(file.read_text().split()) if file.exists() else set()
