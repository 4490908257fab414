"""For pytest in a guest: tests of a hierarchy that this guest does not have are skipped.

A test is for one hierarchy when a fixture of it is called `v1` or `v2`, or its name or its
parameters say so; one that names both, or none, runs everywhere.
"""

from __future__ import annotations

import os
import re

import pytest

_NAMED = re.compile(r"(?<![a-z0-9])v[12](?![a-z0-9])")


def hierarchies(fixtures: list[str], name: str) -> set[str]:
    """The hierarchies that a test is for; none means any."""
    return {"v1", "v2"}.intersection(fixtures) | set(_NAMED.findall(name))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = os.environ["QOSLET_EXPECT"]
    for item in items:
        wanted = hierarchies(getattr(item, "fixturenames", []), item.name)
        if len(wanted) == 1 and here not in {*wanted, "hybrid"}:
            item.add_marker(pytest.mark.skip(f"of {wanted.pop()}; this guest has {here}"))
