"""What every test shares: no deadline on generated examples, the same ones in every CI run."""

from __future__ import annotations

import os

# Programs are started as users start them: with outputs that are buffered.
os.environ.pop("PYTHONUNBUFFERED", None)
# A child that unpacks an image closes all descriptors: threads of gRPC that begin again in it would abort it.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from hypothesis import settings

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
