"""kubectl, for what it does better than a client of our own: commands in containers."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from shutil import which

from qoslet.core.api.schema import shown
from qoslet.errors import CannotDo
from qoslet.host.cluster.client_library import ClusterAccess

_SECONDS = 120.0
_REMOTE_FAILED = "command terminated with exit code"
"""Source: k8s.io/client-go/util/exec; kubectl prints it after what the command has printed."""


def kubectl(
    access: ClusterAccess,
    *arguments: str,
    where: str,
    given: bytes | None = None,
    hint: str = "",
) -> bytes:
    """What kubectl prints for ``arguments``, with ``given`` as standard input. Raises CannotDo where it
    lacks, fails, or takes more than two minutes; with ``hint`` where no command in a container did."""
    program = which("kubectl")
    if program is None:
        hint = "install it, or use a file of qoslet bundle with --bundle"
        raise CannotDo("kubectl is not installed", where=where, hint=hint)
    words: Sequence[str] = (program, *_chosen(access), *arguments)
    try:
        done = subprocess.run(
            words, input=given or b"", capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise CannotDo(f"kubectl takes more than {_SECONDS:g} s", where=where) from None
    except OSError as error:
        raise CannotDo(f"kubectl cannot be run: {error.strerror}", where=where) from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        if len(lines) > 1 and lines[-1].startswith(_REMOTE_FAILED):
            # the line before it is what the command in the container said
            del lines[-1]
            hint = ""
        said = shown(lines[-1], 300) if lines else f"exit code {done.returncode}"
        raise CannotDo(f"kubectl: {said}", where=where, hint=hint)
    return done.stdout


def _chosen(access: ClusterAccess) -> list[str]:
    """Which cluster, as its options."""
    named = {"--kubeconfig": access.kubeconfig, "--context": access.context}
    return [f"{option}={value}" for option, value in named.items() if value]
