"""Which images hold programs that do not read their limits from cgroup v2."""

from __future__ import annotations

import pytest

from qoslet.core.api.manifest import Options
from qoslet.core.diff.diff import diff
from qoslet.core.plan.plan import plan
from qoslet.host.files.manifests import load_text
from tests.core.vectors.fixtures import node_of

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec: {{containers: [{{name: c, image: "{0}"}}]}}
"""


def messages(image: str, before: str = "v1", after: str = "v2") -> list[str]:
    pods = load_text(POD.format(image), Options()).pods
    sides = [
        plan(pods, node_of("1.31", capacity={"cpu": "4", "memory": "8Gi"}, host={"hierarchy": one}))
        for one in (before, after)
    ]
    return [hint.message for hint in diff(*sides).hints]


@pytest.mark.parametrize(
    ("image", "begins"),
    [
        ("openjdk:11.0.15-jre", "Java reads cgroup v2 from 11.0.16 on"),
        ("docker.io/library/eclipse-temurin:8u342-b07", "Java reads cgroup v2 from 8u372 on"),
        ("amazoncorretto:8", "Java 8 reads cgroup v2 from 8u372 on, which the tag does not tell"),
        ("openjdk:1.8.0_342", "Java reads cgroup v2 from 8u372 on"),
        ("openjdk:14-jdk", "Java 14 does not read cgroup v2"),
        ("ibm-semeru-runtimes:17.0.7", "Semeru Java reads cgroup v2 from 17.0.8 on"),
        ("ibm-semeru-runtimes:open-8u362-b09-jre", "Semeru Java reads cgroup v2 from 8u382 on"),
        (
            "icr.io/appcafe/ibm-semeru-runtimes:open-17-jre",
            "Semeru Java 17 reads cgroup v2 from 17.0.8 on, which the tag does not tell",
        ),
        (
            "openjdk:11.0-jre",
            "Java 11 reads cgroup v2 from 11.0.16 on, which the tag does not tell",
        ),
        ("registry:5000/node:14-alpine", "Node.js 14 does not read cgroup v2"),
        ("node:20.2.0", "Node.js reads cgroup v2 from 20.3.0 on"),
        ("mcr.microsoft.com/dotnet/aspnet:3.1", ".NET 3 does not read cgroup v2"),
        ("golang:1.21-alpine", "Go reads CPU limits by itself from 1.25 on"),
    ],
)
def test_old_programs_are_named(image: str, begins: str) -> None:
    (message,) = messages(image)
    assert message.startswith(begins)


@pytest.mark.parametrize(
    "image",
    [
        "openjdk:17",
        "openjdk:11.0.16",
        "eclipse-temurin:8u372-b07",
        "openjdk",
        "openjdk:latest",
        "openjdk@sha256:0000",
        "node:20.3",
        "node:20.3.1",
        "ibm-semeru-runtimes:open-17.0.8_7-jre",
        "node:22",
        "golang:1.25.1",
        "golang:latest",
        "mcr.microsoft.com/dotnet/aspnet:8.0",
        "example.org/runtime:1.0",
        "nginx:1.14",
    ],
)
def test_nothing_is_said_of_others(image: str) -> None:
    assert messages(image) == []


def test_they_matter_on_the_way_to_v2_only() -> None:
    assert messages("node:14", "v1", "v1") == messages("node:14", "v2", "v1") == []
    assert messages("node:14", "v2", "v2") == []
