"""``qoslet top`` without a terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.fixtures import command, environment, run, write
from tests.paths import DATA


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--interval", "0"), "must be 0.1 to 3600 seconds"),
        (("--interval", "nan"), "--interval: 'nan' is not a duration such as 10s, 5m or 1h30m"),
        (("--interval", "2h"), "must be 0.1 to 3600 seconds"),
        (("--sort", "size"), "invalid choice: 'size'"),
        (("--bundle", "absent.tar.gz"), "absent.tar.gz"),
        (("-f", "absent.yaml"), "absent.yaml"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = run("top", "--once", *arguments, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_node_with_another_hierarchy_is_refused(tmp_path: Path) -> None:
    documents = write(tmp_path)
    for hierarchy in ("v1", "v2"):
        text = (tmp_path / "node.yaml").read_text()
        (tmp_path / "node.yaml").write_text(
            text.replace("hierarchy: v1", "hierarchy: v2").replace(
                "hierarchy: v2", f"hierarchy: {hierarchy}"
            )
        )
        done = run("top", "--once", *documents, "--interval", "0.1", folder=tmp_path)
        if done.returncode == 0:
            assert "default/web" in done.stdout
            assert "absent" in done.stdout
        else:
            assert done.returncode == 3
            assert "cgroup" in done.stderr


def test_the_schema_is_printed() -> None:
    schema = json.loads(run("top", "--schema").stdout)
    assert schema["$id"] == "urn:qoslet:v1:top"


def test_a_terminal_without_a_standard_input_gets_the_table(tmp_path: Path) -> None:
    write(tmp_path)
    assert run("bundle", "-f", "pods.yaml", "-o", "b.tgz", folder=tmp_path).returncode == 0
    line = f"{' '.join(command('top'))} --bundle b.tgz <&-"
    script = "import pty, sys; sys.exit(pty.spawn(['sh', '-c', *sys.argv[1:]]) >> 8)"
    done = subprocess.run(
        [sys.executable, "-c", script, line], cwd=tmp_path, env=environment(),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "default/web" in done.stdout


@pytest.mark.parametrize("name", ["kubelet-containerd-v1", "kubelet-numa-v2"])
def test_a_bundle_tells_of_the_kills_since_its_cgroups_exist(name: str) -> None:
    """They take no second look, unlike rates."""
    done = run("top", "-o", "json", "--bundle", str(DATA / "bundles" / f"{name}.tar.gz"))
    rows = [one for one in json.loads(done.stdout)["cgroups"] if one["exists"]]
    above = None if name.endswith("v1") else 0
    assert {(one["level"] == "container", one["oomKills"]) for one in rows} == {
        (True, 0),
        (False, above),
    }
    assert {one["cpuCores"] for one in rows} == {None}
