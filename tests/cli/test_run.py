"""What ``run`` refuses before it touches anything."""

from __future__ import annotations

import pytest

from tests.cli.fixtures import run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no manifests"),
        (
            ("examples/", "--with", "runc", "--simulate"),
            "--with: cannot be combined with --simulate",
        ),
        (
            ("examples/", "--with", "cri-o", "--simulate"),
            "--with: cannot be combined with --simulate",
        ),
        (("examples/", "--container-runtime-endpoint", "x"), "-endpoint: needs a CRI runtime"),
        (("examples/", "--images", "x"), "need an OCI runtime (add --with runc or --with crun)"),
        (("examples/", "--with", "rkt"), "--with: invalid choice"),
        (
            ("examples/", "--runtime", "runc-1.4.0"),
            "--runtime: cannot be combined with --with process",
        ),
        (("examples/", "--cgroup-root", "/"), "must be a cgroup below /"),
        (("examples/", "--cgroup-root", "/a/../b"), "must be a cgroup below /"),
        (("examples/", "--simulate", "--cgroup-driver", "systemd"), "--simulate has no systemd"),
        (("examples/", "--for", "0"), "is not a positive number"),
        (("examples/", "--log-format", "xml"), "--log-format"),
    ],
)
def test_bad_usage_is_one_line(words: tuple[str, ...], said: str) -> None:
    done = run("run", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
