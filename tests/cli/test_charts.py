"""What charts print, given to the commands that take manifests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.fixtures import run
from tests.paths import REPO

CHARTS = REPO / "tests/data/charts"


@pytest.mark.parametrize("name", sorted(path.name for path in CHARTS.iterdir()))
def test_a_chart_is_simulated_though_only_images_know_its_commands(name: str) -> None:
    done = run("run", str(CHARTS / name), "--simulate", "--for", "0.5", "--plain")
    assert "the tree is as planned" in done.stdout
    assert "error:" not in done.stderr
    assert "plain processes" not in done.stderr
    assert done.returncode == 0


def test_the_commands_that_compare_and_explain_take_charts() -> None:
    diff = run("diff", str(CHARTS), "--to", "hierarchy=v1")
    assert (diff.returncode, "error:" in diff.stderr) == (0, False)
    explain = run("explain", "argocd-server", "memory.max", "-f", str(CHARTS))
    assert (explain.returncode, "error:" in explain.stderr) == (0, False)


def test_without_simulation_a_command_that_only_an_image_knows_is_an_error(tmp_path: Path) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
        "spec: {containers: [{name: c, image: registry.example/web:1}]}\n"
    )
    done = run("run", str(manifest), "--dry-run")
    assert "the process runtime cannot read the entrypoint of image" in done.stderr
