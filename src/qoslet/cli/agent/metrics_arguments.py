"""The options about what an agent exports at ``/metrics``."""

from __future__ import annotations

import argparse

from qoslet.core.status.series import DEFAULT_SERIES, MetricsOptions


def add_metrics_arguments(parser: argparse._ArgumentGroup) -> None:
    """Add them."""
    parser.add_argument(
        "--metrics-bind-address",
        dest="metrics_address",
        metavar="[HOST:]PORT",
        help="Serve /metrics over TCP too; without HOST at 127.0.0.1",
    )
    parser.add_argument(
        "--metrics-max-series",
        type=_count,
        default=DEFAULT_SERIES,
        metavar="COUNT",
        help="Above this number of series leave out those of containers, then those of pods "
        f"(default: {DEFAULT_SERIES})",
    )
    parser.add_argument(
        "--metrics-kubelet-names",
        action="store_true",
        help="Export what a kubelet exports by its names too, such as container_memory_usage_bytes",
    )


def metrics_options(args: argparse.Namespace) -> MetricsOptions:
    """What they say."""
    return MetricsOptions(args.metrics_max_series, args.metrics_kubelet_names)


def _count(text: str) -> int:
    """A positive number."""
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)
