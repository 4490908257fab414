"""Fixtures of the tests that write to this machine's kernel."""

from tests.live.machine import machine

__all__ = ["machine"]
