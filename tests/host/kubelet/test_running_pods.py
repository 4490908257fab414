"""Pods that have processes, by the names of their cgroups."""

from __future__ import annotations

from pathlib import Path

from qoslet.host.kubelet.running_pods import pods_with_processes

ONE, TWO = "0a1b2c3d-0000-4000-8000-000000000001", "0a1b2c3d-0000-4000-8000-000000000002"
STATIC = "0123456789abcdef0123456789abcdef"


def test_either_driver_and_either_hierarchy(tmp_path: Path) -> None:
    systemd = f"kubepods.slice/kubepods-pod{ONE.replace('-', '_')}.slice/cri-containerd-ab.scope"
    rows = {
        "1": "0::/init.scope\n",
        "7": f"0::/{systemd}\n",
        "8": f"4:memory:/kubepods/burstable/pod{STATIC}/ab\n1:cpu:/kubepods\n",
    }
    for pid, text in rows.items():
        folder = tmp_path / "proc" / pid
        folder.mkdir(parents=True)
        (folder / "cgroup").write_text(text)
    (tmp_path / "proc" / "9").mkdir()
    (tmp_path / "proc" / "sys").mkdir()
    asked = frozenset({ONE, TWO, STATIC})
    assert pods_with_processes(asked, str(tmp_path)) == {ONE, STATIC}
    assert pods_with_processes((), "/nowhere") == frozenset()
