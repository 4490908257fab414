"""What ``run`` refuses before it touches anything."""

from __future__ import annotations

import pytest

from tests.cli.fixtures import run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no manifests"),
        (("examples/", "--with", "runc", "--simulate"), "--with: the simulated kernel has no"),
        (("examples/", "--with", "cri-o", "--simulate"), "--with: the simulated kernel has no"),
        (("examples/", "--container-runtime-endpoint", "x"), "-endpoint: no runtime is called"),
        (("examples/", "--images", "x"), "are for OCI runtimes (--with runc, or --with crun)"),
        (("examples/", "--with", "rkt"), "--with: invalid choice"),
        (("examples/", "--runtime", "runc-1.4.0"), "--runtime: containers are processes"),
        (("examples/", "--cgroup-root", "/"), "no root of one's own"),
        (("examples/", "--cgroup-root", "/a/../b"), "no root of one's own"),
        (("examples/", "--simulate", "--cgroup-driver", "systemd"), "has no systemd"),
        (("examples/", "--for", "0"), "no positive number"),
        (("examples/", "--log-format", "xml"), "--log-format"),
    ],
)
def test_bad_usage_is_one_line(words: tuple[str, ...], said: str) -> None:
    done = run("run", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
