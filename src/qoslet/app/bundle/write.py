"""A bundle of this machine as the command line asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.app.bundle.contents import BundleSource, packed
from qoslet.app.bundle.gather import BundleOptions, gather
from qoslet.app.node.found_node import kubelet_options
from qoslet.core.api.documents import options_of
from qoslet.core.node.flags import flags_of
from qoslet.host.files.bundle import write_bundle as write

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

__all__ = ["bundle", "write"]


def bundle(
    args: argparse.Namespace, paths: Sequence[str], seconds: float
) -> tuple[BundleSource, bytes]:
    """What was found on this machine, and the archive of it. Raises BadInput, BadInputs, CannotDo."""
    options = options_of(args, None)
    asked = BundleOptions(
        paths,
        args.node,
        flags_of(args),
        options,
        args.recursive,
        kubelet_options(args),
        args.live,
    )
    source = gather(asked)
    return source, packed(source, seconds, redact=args.redact)
