"""Memory QoS on this machine's kernel: each form's values on every level, and that nothing of it
stays when it is switched off under running pods, also where the agent was killed on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from qoslet.cli import main
from qoslet.core.cgroup.interface_files import released
from tests.live.agent.test_run import EMULATED
from tests.live.memory.memory_qos_site import PODS, THEIRS, Site, Values, systemctl

pytestmark = [pytest.mark.live, pytest.mark.timeout(600 if EMULATED else 200)]

FORMS = ("1.22", "1.27", "1.36", "1.37", "design", "qoslet")


@pytest.fixture(params=["cgroupfs", "systemd"])
def v2(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(tmp_path, request.param)
    try:
        yield made
    finally:
        made.clear()


def nothing(values: Values) -> Values:
    """The same files where nobody protects or throttles."""
    return {
        (path, file): str(released(file, "v2"))
        for path, file in values
        if file != "memory.oom.group"
    }


def test_v2_each_form_stands_on_every_level_and_goes_without_a_trace(
    v2: Site, record_property
) -> None:
    """On, off, on under running pods, then off while the agent is killed."""
    v2.wants(FORMS[0])
    v2.begin()
    v2.stands()
    v2.until(lambda: len(v2.pids()) == len(PODS), lambda: f"{v2.pids()}")
    pids = v2.pids()
    on = {}
    for form in FORMS:
        v2.wants(form)
        on[form] = v2.stands()
        assert on[form] != nothing(on[form])
        if v2.driver == "systemd":
            v2.compared += v2.properties()
    assert len({tuple(values.values()) for values in on.values()}) > 3, "forms differ"

    theirs = {(v2.reserved[0], file): str(value) for file, value in THEIRS.items()}
    off = {**nothing(on["1.36"]), **theirs}
    v2.wants("1.36", gate=False)
    v2.until(lambda: v2.standing(off) == off, lambda: f"{v2.standing(off)}")
    v2.stands()
    if v2.driver == "systemd":
        v2.compared += v2.properties()
        assert v2.kept() == []
        systemctl("daemon-reload")
        assert v2.standing(off) == off, "nothing comes back"

    v2.wants("1.36")
    assert v2.stands() == on["1.36"], "byte for byte"
    v2.wants("qoslet")
    assert v2.stands() == on["qoslet"]

    v2.wants("1.36", gate=False)
    v2.kill()
    v2.begin()
    v2.until(lambda: v2.standing(off) == off, lambda: f"{v2.standing(off)}")
    v2.stands()
    assert v2.pids() == pids, "nothing was restarted"
    assert "configuration reloaded" in v2.said()
    record_property("driver", v2.driver)
    record_property("compared", v2.compared)
    assert v2.compared > 400


def test_v2_a_tree_that_stays_goes_back_with_the_next_pass(v2: Site, record_property) -> None:
    """``apply`` with the gate on, off, on; nobody's groups of containers among them."""
    words = ["apply", str(v2.manifests), "--node", str(v2.node), "--cgroup-root", v2.name]
    found = []
    for gate in (True, False, True, False):
        v2.wants("1.36", gate=gate)
        assert main.run(words) == 0
        keys = {
            key: value
            for key, value in v2.planned().items()
            if v2.tree.identity(key[0]) is not None
        }
        assert any("pod" in path for path, _ in keys)
        seen = v2.standing(keys)
        assert seen == keys
        found.append(seen)
        v2.compared += len(keys)
        if v2.driver == "systemd":
            v2.compared += v2.properties()
            assert gate or v2.kept() == []
    assert found[:2] == found[2:]
    assert found[0] != found[1]
    assert v2.compared > 60
    record_property("driver", v2.driver)
    record_property("compared", v2.compared)
