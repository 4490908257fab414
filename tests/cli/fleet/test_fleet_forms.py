"""Clusters in other forms than kubectl's: arrays, lines, zstd, and names that are too long."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.fixtures import run
from tests.cli.fleet.clusters import cluster, node, text_of
from tests.cli.fleet.test_fleet import errors, fleet


@pytest.mark.parametrize("form", ["array", "lines", "mark"])
def test_other_forms_of_the_same_cluster(tmp_path: Path, form: str) -> None:
    items, whole = cluster(3, 24), text_of(cluster(3, 24))
    text = {
        "array": json.dumps(items),
        "lines": "\n".join(map(json.dumps, items)),
        "mark": f"\ufeff{whole}",
    }[form]
    (tmp_path / "other.json").write_text(text)
    assert fleet(tmp_path, "other.json")["nodes"] == fleet(tmp_path, "-", stdin=whole)["nodes"]


def test_a_long_name_does_not_fill_the_screen(tmp_path: Path) -> None:
    long = node("n" * 9_999)
    done = run("fleet", "-", folder=tmp_path, stdin=text_of([node("n-0"), long]))
    assert done.returncode == 1
    assert max(map(len, done.stdout.splitlines())) < 500


def test_what_ends_early_in_zstd_is_said(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    lines = [json.dumps(one).encode() + b"\n" for one in cluster(3, 24)]
    packer = zstandard.ZstdCompressor().compressobj()
    packed = b"".join(map(packer.compress, lines[:20]))
    packed += packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    (tmp_path / "cut.json.zst").write_bytes(packed)
    cut = fleet(tmp_path, "cut.json.zst", code=1)
    assert cut["totals"]["pods"] == 17
    where = "cut.json.zst"
    assert errors(cut) == [(where, "cannot be unpacked: ends in the middle")]
    frames = zstandard.compress(b"".join(lines[:9])) + zstandard.compress(b"".join(lines[9:]))
    (tmp_path / "two.json.zst").write_bytes(frames)
    assert fleet(tmp_path, "two.json.zst")["totals"]["pods"] == 24
    (tmp_path / "tail.json.zst").write_bytes(frames + b"junk")
    assert fleet(tmp_path, "tail.json.zst", code=1)["totals"]["pods"] == 24


def test_what_becomes_of_nodes_on_the_other_side_is_said(tmp_path: Path) -> None:
    text = text_of(cluster(3, 24))
    options = ("--hierarchy", "v2", "--kubernetes", "1.36", "--to", "hierarchy=v1")
    drawn = run("fleet", "-", *options, folder=tmp_path, stdin=text).stdout
    assert "on the other side: 3 warning\n" in drawn
    assert drawn.count("ok → warning") == 3
    page = run("fleet", "-", *options, "-o", "html", folder=tmp_path, stdin=text).stdout
    assert "<p>The other side: <code>--to hierarchy=v1</code></p>" in page
    assert "<p>On the other side: 3 warning</p>" in page
    assert page.count("<td>ok → warning</td>") == 3
    plain = run(
        "fleet", "-", "--rehearse", "v1-to-v2", folder=tmp_path, stdin=text_of([node("n-0")])
    )
    assert "on the other side" not in plain.stdout or "→" in plain.stdout
