"""The policy of a mounted ConfigMap: taken up when the kubelet replaces ``..data``."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from qoslet.app.guest.policy_file import PolicyFile
from qoslet.core.guest.policy_document import NO_FLAGS
from qoslet.host.files.watched_node import NodeFiles

POLICY = "apiVersion: qoslet/v1\nkind: AgentPolicy\nmode: {}\n"
UNDER_A_MOUNT = """\
import os, sys
from qoslet.host.files.trusted_path import open_trusted
for path in sys.argv[1:]:
    os.close(open_trusted(path, os.O_RDONLY))
"""


def put(folder: Path, number: int, text: str) -> None:
    """As a kubelet writes a ConfigMap: files in a directory of their own, and a link that is replaced."""
    made = folder / f"..{number}"
    made.mkdir()
    (made / "policy.yaml").write_text(text)
    (folder / "..data_tmp").symlink_to(made.name)
    (folder / "..data_tmp").rename(folder / "..data")
    if not (folder / "policy.yaml").is_symlink():
        (folder / "policy.yaml").symlink_to("..data/policy.yaml")
    before = folder / f"..{number - 1}"
    if before.is_dir():
        shutil.rmtree(before)


def test_a_changed_config_map_is_taken_up_and_a_wrong_one_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "qoslet"
    folder.mkdir()
    put(folder, 1, POLICY.format("watch"))
    path = str(folder / "policy.yaml")
    with closing(NodeFiles([path], lambda: 0.0, strict=os.geteuid() == 0)) as files:
        policy = PolicyFile(path, NO_FLAGS, files)
        assert (policy.current().mode, policy.fault) == ("watch", "")
        put(folder, 2, POLICY.format("protect"))
        ready, _, _ = select.select(policy.descriptors(), [], [], 5.0)
        assert ready, "the agent is woken by it"
        assert (policy.current().mode, policy.fault) == ("protect", "")
        put(folder, 3, POLICY.format("protext"))
        assert policy.current().mode == "protect"
        assert policy.fault.startswith("the policy stays as it was: ")
        put(folder, 4, POLICY.format("guard"))
        assert (policy.current().mode, policy.fault) == ("guard", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts, in a namespace of its own")
def test_the_directory_of_a_config_map_is_trusted_where_it_is_read_only(tmp_path: Path) -> None:
    folder, mounted = tmp_path / "volume", tmp_path / "mounted"
    folder.mkdir()
    mounted.mkdir()
    put(folder, 1, POLICY.format("watch"))
    folder.chmod(0o777)
    reads = f'exec {sys.executable} -c "$0" {mounted}/policy.yaml'
    mounts = {
        f"mount --bind {folder} {mounted} && mount -o remount,bind,ro {mounted}": 0,
        f"mount --bind {folder} {mounted}": 1,
    }
    for mount, code in mounts.items():
        words = ["unshare", "--mount", "sh", "-c", f"{mount} && {reads}", UNDER_A_MOUNT]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
    assert "they can change the directory" in done.stderr
