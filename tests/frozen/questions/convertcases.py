"""What is asked of ``convert``: blocks, messages and pods, by target and runtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle

from tests.frozen.questions import blocks, documents

V2_RUNTIMES = ("runc-1.1.5", "runc-1.2.0", "runc-1.4.0", "crun-1.8.1", "crun-1.23")
V1_RUNTIMES = ("runc-1.1.5", "runc-1.4.0", "crun-1.4", "crun-1.21")
SYSTEMD = (("v2", "runc-1.4.0"), ("v2", "crun-1.8.1"), ("v1", "runc-1.3.1"), ("v1", "crun-1.23"))
MORE_RUNTIMES = (
    "kep-2254", "containerd-1.7.0", "cri-o-1.34.0+crun-1.23", "runc-1.0.3", "crun-1.21", "process",
)  # fmt: skip
WITHOUT = ("bfq", "iocost", "rsvd", "swap", "bfq,iocost", "bfq,iocost,rsvd,swap")

Argvs = Iterator[list[str]]


def _convert(file: str, to: str, *more: str, form: str = "json") -> list[str]:
    return ["convert", file, "--to", to, "-o", form, *more]


def _v2() -> Argvs:
    for file in blocks.oci_blocks():
        for runtime in V2_RUNTIMES:
            yield _convert(file, "v2", "--runtime", runtime)


def _v1() -> Argvs:
    for file in blocks.oci_blocks():
        for runtime in V1_RUNTIMES:
            yield _convert(file, "v1", "--runtime", runtime)


def _systemd() -> Argvs:
    for file in blocks.oci_blocks():
        for hierarchy, runtime in SYSTEMD:
            yield _convert(file, "systemd", "--hierarchy", hierarchy, "--runtime", runtime)


def _others() -> Argvs:
    """Other targets, drivers, runtimes; updates; a kernel that lacks something; printed forms."""
    runtimes, without, forms = cycle(MORE_RUNTIMES), cycle(WITHOUT), cycle(("files", "shell"))
    targets = cycle(("v2", "v1", "systemd"))
    files = list(blocks.oci_blocks())
    for at, file in enumerate(files):
        yield _convert(file, "oci")
        yield _convert(file, "cri")
        yield _convert(file, "v2", "--runtime", next(runtimes))
        yield _convert(file, "v2", "--cgroup-driver", "systemd", "--runtime", "runc-1.4.0")
        yield _convert(file, next(targets), "--without", next(without))
        before = files[(at * 7 + 3) % len(files)]
        yield _convert(file, next(targets), "--update")
        used = ("--update", before, "--usage", "67108864,4096")
        yield _convert(file, "v2", *used, "--runtime", ("runc-1.1.5", "crun-1.23")[at % 2])
        yield _convert(file, "v1", *used[:2])
        yield _convert(file, next(targets), form=next(forms))
    yield _convert(files[0], "windows")


def _messages() -> Argvs:
    for file in blocks.cri_messages():
        for to in ("v1", "v2", "systemd", "oci", "cri"):
            for runtime in ("runc-1.4.0", "crun-1.21", "containerd-1.7.0", "cri-o-1.34.0"):
                yield _convert(file, to, "--from", "cri", "--runtime", runtime)
        yield _convert(file, "v2")
    for file in blocks.windows_messages():
        for to in ("windows", "oci", "cri"):
            for isolation in ("process", "hyperv"):
                yield _convert(file, to, "--isolation", isolation)
                yield _convert(file, to, "--isolation", isolation, "--processors", "4")
        yield _convert(file, "windows", "--kubernetes", "design", "--processors", "2")
        yield _convert(file, "v2")


def _pods(nodes: Sequence[str]) -> Argvs:
    targets, ring = cycle(("v2", "v1", "systemd", "oci", "cri", "windows")), cycle(nodes)
    for file in documents.vector_pods():
        for _ in range(2):
            yield _convert(file, next(targets), "--node", next(ring))
    for node in nodes:
        yield _convert("burstable.yaml", next(targets), "--node", node)
    for release in ("1-10", "1-18", "1-27", "1-36", "design"):
        for isolation in ("process", "hyperv"):
            more = ("--node", f"windows-{release}.yaml", "--isolation", isolation)
            yield _convert("burstable.yaml", "windows", *more)
            yield ["plan", "burstable.yaml", *more, "-o", "json"]
            yield ["plan", "burstable.yaml", *more, "-o", "cri"]


def conversions(nodes: Sequence[str]) -> dict[str, list[list[str]]]:
    """The commands by group; ``nodes`` are the nodes' files."""
    made = {
        "convert-v1": _v1(),
        "convert-v2": _v2(),
        "convert-systemd": _systemd(),
        "convert-others": _others(),
        "convert-messages": _messages(),
        "convert-pods": _pods(nodes),
    }
    return {name: list(argvs) for name, argvs in made.items()}
