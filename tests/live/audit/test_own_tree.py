"""What a user sees of qoslet's own tree who may not read its records."""

from __future__ import annotations

import json
import os
import shutil
import signal
from tempfile import TemporaryDirectory

import pytest

import qoslet
from qoslet.app.bundle.gather import BundleOptions, gather
from qoslet.core.api.manifest import Options
from qoslet.core.node.flags import Flags
from tests.cli.fixtures import answer
from tests.live.agent.agents import SLOW, Agent, agent
from tests.live.agent.test_run import PATIENCE

__all__ = ["agent"]

pytestmark = [pytest.mark.live, pytest.mark.timeout(2 * PATIENCE + 10)]

NOBODY = 65534
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: app, command: [sleep, "1000"], resources: {limits: {memory: 64Mi}}}]}
"""


def test_without_the_records_a_container_is_not_said_to_be_anothers(agent: Agent) -> None:
    (agent.manifests / "web.yaml").write_text(POD)
    agent.service("--cgroup-driver", "cgroupfs")
    agent.until(lambda: len(agent.pids()) == 1)
    pods = qoslet.load_pods(agent.manifests)
    node = qoslet.load_node(cgroup_root=agent.root, cgroup_driver="cgroupfs")
    plan = qoslet.plan(pods, node)
    found = qoslet.audit(plan).report.findings
    assert "foreign" not in {one.verdict for one in found}
    os.seteuid(NOBODY)
    try:
        with pytest.raises(qoslet.CannotDo, match="its records of it cannot be read") as refused:
            qoslet.audit(plan)
    finally:
        os.seteuid(0)
    assert refused.value.where.endswith("/app")
    assert refused.value.hint == "run it as root"
    known = qoslet.load_node(cgroup_root=agent.root, cgroup_driver="cgroupfs", runtime="process")
    os.seteuid(NOBODY)
    try:
        assert qoslet.audit(qoslet.plan(pods, known)).report.findings == ()
    finally:
        os.seteuid(0)


def test_a_bundle_without_the_records_says_so(agent: Agent) -> None:
    (agent.manifests / "web.yaml").write_text(POD)
    agent.service("--cgroup-driver", "cgroupfs")
    agent.until(lambda: len(agent.pids()) == 1)
    flags = Flags(cgroup_root=agent.root, cgroup_driver="cgroupfs")
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = shutil.copy(agent.manifests / "web.yaml", folder)
        asked = BundleOptions((path,), (), flags, Options())
        assert "pods.json" not in gather(asked).missing
        os.seteuid(NOBODY)
        try:
            said = gather(asked).missing["pods.json"]
        finally:
            os.seteuid(0)
    assert said.endswith("its records of it cannot be read (run it as root)")


def test_a_running_agent_tells_its_pods_and_its_node(agent: Agent) -> None:
    (agent.manifests / "web.yaml").write_text(POD)
    agent.service("--cgroup-driver", "cgroupfs", "--pod-max-pids", "77")
    agent.until(lambda: len(agent.pids()) == 1)
    for words, told in (
        (("audit", "pod/web"), '"findings": []'),
        (("top", "--once"), 'default/web"'),
        (("explain", "--live", "web", "pids.max"), '"value": "77"'),
        (("plan", "--live"), '"value": "77"'),
        (("diff", "--live", "--to", "pod-max-pids=88"), '"to": "88"'),
    ):
        found = answer(*words, "-o", "json", "--cgroup-root", agent.root)
        assert (found.returncode, found.stderr) == (0, f"qoslet: agent of {agent.root}: 1 pod\n")
        assert told in found.stdout


def test_a_pod_that_is_ending_does_not_keep_others_from_being_audited(agent: Agent) -> None:
    stays = POD.replace("web", "stays").replace(
        'sleep, "1000"', 'sh, -c, "trap : TERM; while :; do sleep 1; done"'
    )
    stays = stays.replace("spec: {", f"spec: {{terminationGracePeriodSeconds: {60 * SLOW:.0f}, ")
    (agent.manifests / "web.yaml").write_text(POD)
    (agent.manifests / "stays.yaml").write_text(stays)
    agent.service("--cgroup-driver", "cgroupfs")
    agent.until(lambda: len(agent.apps()) == 2 and len(agent.rows()) == 2, PATIENCE)
    (agent.manifests / "stays.yaml").unlink()
    agent.until(lambda: "Terminating" in {row["phase"] for row in agent.rows()}, PATIENCE)
    found = answer("audit", "--cgroup-root", agent.root, "-o", "json")
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stderr == f"qoslet: agent of {agent.root}: 1 pod\n"
    (finding,) = json.loads(found.stdout)["findings"]
    assert finding["verdict"] == "pending"
    assert "as while a pod is being ended" in finding["message"]
    assert answer("top", "--once", "--cgroup-root", agent.root).returncode == 0
    for pid in agent.pids():
        os.kill(pid, signal.SIGKILL)
