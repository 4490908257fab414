"""Where the logs of a root's containers are: on a file system of their own, away from its state.

``LOGS`` in the state folder is a link to it, so paths stay what they were. A root that an earlier
version began keeps its directory there until it has no pods.
"""

from __future__ import annotations

import os
import shutil
import stat

from qoslet.host.containers.log_files import make_private
from qoslet.host.state.folder import LOGS


def place_logs(folder: str, directory: str) -> str:
    """Make ``LOGS`` of a state folder a link into ``directory``, empty; one that is there stays,
    unless it is an empty directory. A line that says why it could not be done, else empty."""
    link, target = f"{folder}/{LOGS}", f"{directory}/{os.path.basename(folder)}"
    if os.path.islink(link) or not _removed(link):
        return ""
    try:
        make_private(directory)
        if wrong := _not_ours(directory):
            return f"logs stay in {folder}: {directory} {wrong}"
        if os.path.islink(target):
            os.unlink(target)
        shutil.rmtree(target, ignore_errors=True)
        make_private(target)
        os.symlink(target, link)
    except OSError as error:
        return f"logs stay in {folder}: cannot use {directory}: {error.strerror}"
    return ""


def link_again(folder: str, directory: str) -> None:
    """Make ``LOGS`` of a state folder whose pods run again where somebody removed it; the logs
    stay as they are."""
    link, target = f"{folder}/{LOGS}", f"{directory}/{os.path.basename(folder)}"
    if not os.path.lexists(link) and os.path.isdir(target) and not os.path.islink(target):
        try:
            os.symlink(target, link)
        except OSError:
            return


def remove_logs(folder: str) -> None:
    """Remove the logs of a root, wherever they are; what cannot be removed stays."""
    link = f"{folder}/{LOGS}"
    try:
        target = os.readlink(link)
    except OSError:
        shutil.rmtree(link, ignore_errors=True)
        return
    shutil.rmtree(target, ignore_errors=True)
    os.unlink(link)


def _removed(directory: str) -> bool:
    """Whether a directory was empty, which it is no longer, or was not there."""
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _not_ours(directory: str) -> str:
    """Who else may write in a directory; empty where nobody may."""
    facts = os.stat(directory, follow_symlinks=False)
    if facts.st_uid != os.geteuid():
        return f"belongs to user {facts.st_uid}"
    mode = stat.S_IMODE(facts.st_mode)
    return f"can be written by other users (mode {mode:04o})" if mode & 0o022 else ""
