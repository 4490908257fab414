"""Where an agent of 0.1.0 that outlives an upgrade of its files looks for the keeper to start."""

from __future__ import annotations

from qoslet.host.keeper.server import main

__all__ = ["main"]
