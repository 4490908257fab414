"""Programs that read their limits from cgroup v1 only, told by the names and tags of their images.

Source: kubernetes.io "About cgroup v2", section "Migrating to cgroup v2" (Java and its releases);
JDK-8230305; release notes of Node.js 20.3.0 (libuv 1.45), of .NET 5 and of Go 1.25.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from qoslet.core.api.pod import Pod
from qoslet.core.resources.cgroup_tree import Plan

Version = tuple[int, ...]


class WorkloadHint(Struct, frozen=True):
    """A container whose program may not see its limits on the second side."""

    pod: Pod
    container: str
    image: str
    message: str


class _Program(Struct, frozen=True):
    """``images`` are the last components of image names. ``first`` is, by major version, the first
    release that reads v2; ``always`` the major version from which every one does. ``about`` is what
    is said instead of that, where a release reads limits by itself in neither hierarchy."""

    name: str
    images: frozenset[str]
    first: Mapping[int, Version]
    always: int
    effect: str
    about: str = ""


_JAVA = "sizes its heap and its threads by the machine"
_PROGRAMS = (
    _Program(
        "Java",
        frozenset(
            (
                "openjdk",
                "eclipse-temurin",
                "adoptopenjdk",
                "amazoncorretto",
                "zulu-openjdk",
                "zulu-openjdk-alpine",
                "zulu-openjdk-debian",
                "liberica-openjdk-alpine",
                "liberica-openjdk-debian",
                "sapmachine",
            )
        ),
        {8: (8, 372), 11: (11, 0, 16)},
        15,
        _JAVA,
    ),
    _Program(
        "Semeru Java",
        frozenset(("ibm-semeru-runtimes", "semeru-runtimes")),
        {8: (8, 382), 11: (11, 0, 20), 17: (17, 0, 8)},
        18,
        _JAVA,
    ),
    _Program(
        "Node.js", frozenset(("node",)), {20: (20, 3, 0)}, 21, "sizes its heap by the machine"
    ),
    _Program(
        ".NET",
        frozenset(("aspnet", "runtime", "dotnet", "aspnetcore")),
        {},
        5,
        "sizes its heap and its thread pool by the machine",
    ),
    _Program(
        "Go",
        frozenset(("golang",)),
        {1: (1, 25)},
        2,
        "",
        "Go reads CPU limits by itself from 1.25 on; a program with automaxprocs needs 1.5.1 of it "
        "on cgroup v2: without it, it runs as many threads as the machine has CPUs",
    ),
)
_BY_IMAGE = {image: program for program in _PROGRAMS for image in program.images}


def hints(before: Plan, after: Plan) -> Iterator[WorkloadHint]:
    """What the move from v1 to v2 means for programs whose images tell what they are."""
    if (before.node.hierarchy, after.node.hierarchy) != ("v1", "v2"):
        return
    for row in after.pods:
        for container in row.pod.containers:
            message = _message(container.image or "")
            if message:
                yield WorkloadHint(row.pod, container.name, container.image or "", message)


def _message(image: str) -> str:
    """What is wrong with an image on v2; empty where nothing is known to be."""
    name, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    program = _BY_IMAGE.get(name)
    if program is None:
        return ""
    if name in ("runtime", "dotnet") and "mcr.microsoft.com" not in image:
        return ""
    version = _version(tag)
    if not version:
        return ""
    major = version[0]
    if major >= program.always:
        return ""
    first = program.first.get(major)
    if program.about:
        return program.about if first is None or version < first else ""
    if first is None:
        text = f"{program.name} {major} does not read cgroup v2"
    elif version >= first or _is_begin(version, first, all_zero=True):
        return ""
    elif _is_begin(version, first):
        shown = _shown(program, first)
        text = (
            f"{program.name} {major} reads cgroup v2 from {shown} on, which the tag does not tell"
        )
    else:
        text = f"{program.name} reads cgroup v2 from {_shown(program, first)} on"
    return f"{text}: without it, it {program.effect}, not by its limits"


def _is_begin(version: Version, first: Version, *, all_zero: bool = False) -> bool:
    """Whether a tag gives only the first numbers of a release, as ``20.3`` those of 20.3.0;
    ``all_zero``: no number is missing but zeros."""
    begins = first[: len(version)] == version
    return begins and not (all_zero and any(first[len(version) :]))


def _shown(program: _Program, version: Version) -> str:
    if version[0] == 8 and "Java" in program.name:
        return f"8u{version[1]}"
    return ".".join(map(str, version))


def _version(tag: str) -> Version:
    """The numbers that a tag begins with: ``11.0.15-jre``, ``8u342-b07``, ``1.8.0_342``, ``v14``,
    ``open-17.0.8_7-jre``."""
    found = re.match(r"(?:jdk-?|open-|v)?(\d{1,4}(?:[.u_]\d{1,6}){0,3})(?![\d.])", tag)
    if found is None:
        return ()
    numbers = tuple(int(part) for part in re.split(r"[.u_]", found[1]))
    if numbers[:2] == (1, 8):
        return (8, *numbers[3:])
    return numbers
