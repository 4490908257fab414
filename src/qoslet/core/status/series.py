"""How many series the metrics have: those of single containers, then those of pods, are left out
where they would be too many. What is above them is their roll-up: the kernel counts in a cgroup what
those below it use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from qoslet.core.status.fields import Metric

Sample = tuple[tuple[str, ...], float]
"""Values of the labels, and the number."""
LevelLeftOut = Literal["container", "pod"]
LEFT_OUT_FIRST: tuple[LevelLeftOut, ...] = ("container", "pod")
DEFAULT_SERIES = 50_000


class MetricsOptions(Struct, frozen=True):
    """At most ``most`` series of cgroups and pods; with ``kubelet_names`` what a kubelet exports, too,
    by its names."""

    most: int = DEFAULT_SERIES
    kubelet_names: bool = False


def within(
    samples: Mapping[Metric, Sequence[Sample]], most: int
) -> tuple[Mapping[Metric, Sequence[Sample]], Mapping[LevelLeftOut, int]]:
    """The samples, at most ``most`` where containers and pods can be left out, and how many of each
    were: all of a level or none, since a part would look like the whole."""
    left: dict[LevelLeftOut, int] = dict.fromkeys(LEFT_OUT_FIRST, 0)
    count = _count(samples.values())
    for level in LEFT_OUT_FIRST:
        if count <= most:
            break
        samples = {
            metric: [one for one in some if _level(metric, one) != level]
            for metric, some in samples.items()
        }
        left[level] = count - _count(samples.values())
        count -= left[level]
    return samples, left


def _count(samples: Iterable[Sequence[Sample]]) -> int:
    return sum(len(some) for some in samples)


def _level(metric: Metric, sample: Sample) -> str:
    """Whether a series is that of a container (a sandbox is one), of a pod, or of what is above."""
    labels = metric.labels
    if "level" in labels:
        level = sample[0][labels.index("level")]
        return "container" if level == "sandbox" else level
    if "uid" in labels:
        return "container" if "container" in labels else "pod"
    return "node"


def kubelet_labels(labels: Sequence[str], values: Sequence[str]) -> tuple[str, ...]:
    """The labels of a cgroup's series as a kubelet has them (``KUBELET_LABELS``), of ours. Source:
    cAdvisor metrics/prometheus.go, kubelet pkg/kubelet/server containerPrometheusLabelsFunc."""
    given = dict(zip(labels, values, strict=True))
    namespace, _, pod = given["pod"].rpartition("/")
    container = "POD" if given["level"] == "sandbox" else given["container"]
    return container, given["cgroup"], namespace, pod


KUBELET_LABELS = ("container", "id", "namespace", "pod")
