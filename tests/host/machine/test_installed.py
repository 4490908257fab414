"""An optional dependency that lacks its package, too, is told as one that is not installed."""

from __future__ import annotations

import sys

import pytest

from qoslet.app.guest.nri_run import needs_protobuf
from qoslet.errors import CannotDo
from qoslet.host.machine.installed import is_installed


@pytest.mark.parametrize(
    ("module", "found"),
    [("json", True), ("json.decoder", True), ("json.absent", False), ("absent.at.all", False)],
)
def test_a_module_is_found_or_not(module: str, found: bool) -> None:
    assert is_installed(module) is found


def test_nri_names_protobuf_where_nothing_of_google_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fresh environment has no package ``google`` at all."""
    for name in [one for one in sys.modules if one.split(".")[0] == "google"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "google", None)
    with pytest.raises(CannotDo, match="NRI needs protobuf"):
        needs_protobuf()
