"""Which agent is asked: the only one, or that of a root as the kubelet or ``release`` names it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qoslet.app.node.asked_guest import agent_folder
from qoslet.errors import BadInput, CannotDo
from qoslet.host.state.folder import AGENT_SOCKET, escaped

Listen = Callable[[str], str]


@pytest.fixture
def listen(tmp_path: Path) -> Iterator[Listen]:
    made = []

    def listen(root: str) -> str:
        folder = tmp_path / escaped(root)
        folder.mkdir()
        made.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        place = os.open(folder, os.O_PATH)
        made[-1].bind(f"/proc/self/fd/{place}/{AGENT_SOCKET}")
        os.close(place)
        made[-1].listen()
        return str(folder)

    yield listen
    for one in made:
        one.close()


@pytest.mark.parametrize(
    ("root", "names"),
    [
        ("/kubepods", ["/", "/kubepods"]),
        ("/custom/kubepods", ["/custom", "/custom/", "/custom/kubepods"]),
        ("/kubepods.slice", ["/", "/kubepods", "/kubepods.slice"]),
        ("/custom.slice/custom-kubepods.slice", ["/custom", "/custom.slice/custom-kubepods.slice"]),
    ],
)
def test_the_only_agent_needs_no_name(
    tmp_path: Path, listen: Listen, root: str, names: list[str]
) -> None:
    listen("/qoslet")
    folder = listen(root)
    assert agent_folder(None, str(tmp_path)) == folder
    for name in names:
        assert agent_folder(name, str(tmp_path)) == folder
    with pytest.raises(CannotDo):
        agent_folder("/other", str(tmp_path))


def test_of_several_agents_one_is_named(tmp_path: Path, listen: Listen) -> None:
    folder = listen("/a/kubepods")
    listen("/b/kubepods")
    with pytest.raises(BadInput) as caught:
        agent_folder(None, str(tmp_path))
    assert caught.value.hint == "one of /a/kubepods, /b/kubepods"
    assert agent_folder("/a", str(tmp_path)) == folder


def test_a_socket_that_a_killed_agent_left_is_none(tmp_path: Path) -> None:
    folder = tmp_path / escaped("/kubepods")
    folder.mkdir()
    left = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    left.bind(str(folder / AGENT_SOCKET))
    left.close()
    with pytest.raises(CannotDo):
        agent_folder(None, str(tmp_path))
