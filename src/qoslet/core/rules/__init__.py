"""The arithmetic, one module for each resource: a function per rule, its source beside it.

A rule takes and returns numbers; which rules apply is decided where the plan is put together.
Importing the package registers every rule, so that a setting can always say its reason.
"""

from __future__ import annotations

from qoslet.core.rules import cpu, hugetlb, memory, oci, oom, pids, swap, windows

__all__ = ["cpu", "hugetlb", "memory", "oci", "oom", "pids", "swap", "windows"]
