"""Points in time as documents and logs write them."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(seconds: float) -> str:
    """Wall-clock seconds as RFC 3339 in UTC."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
