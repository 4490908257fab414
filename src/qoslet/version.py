"""The version of the package, importable without anything else."""

from __future__ import annotations

VERSION = "0.1.0"
