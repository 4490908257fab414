"""The kubelet's formulas for Windows, release by release, against values worked out by hand.

Sources: kubernetes pkg/kubelet/kuberuntime/helpers_windows.go (milliCPUToShares: least 5000, or 10
under Hyper-V, most 10000) and kuberuntime_container_windows.go (generateWindowsContainerConfig)
of 1.15 to 1.17; kubernetes PR 86101 (1.18 sends a cap only) and the closed PR 94646 (1.17 never
got that); PR 85380, "cpushares is always set to 5000"; PR 114231 and its issue 114211 (1.27 counts
all processors; 94 of 96 gave 10000 before, 9791 after).
"""

from __future__ import annotations

import pytest

from qoslet.core.resources.windows import windows_settings
from qoslet.core.rules import windows
from tests.core.vectors.fixtures import files, pod_of, policy_for


@pytest.mark.parametrize(
    ("milli", "processors", "hyperv", "shares"),
    [
        (0, 4, False, 5000),
        (1000, 4, False, 5000),  # 5000 x 1000 / 4 / 1000 = 1250
        (4000, 4, False, 5000),
        (4001, 4, False, 5001),
        (6000, 4, False, 7500),
        (8000, 4, False, 10000),
        (96000, 4, False, 10000),  # 120000
        (0, 4, True, 10),
        (1, 4, True, 10),  # 9990 / 4 / 1000 = 2
        (5, 4, True, 12),  # 49950 / 4 = 12487, / 1000
        (1000, 4, True, 2497),
        (4000, 4, True, 9990),
        (4005, 4, True, 10000),
        (96000, 4, True, 10000),
    ],
)
def test_shares_until_1_17(milli: int, processors: int, hyperv: bool, shares: int) -> None:
    assert windows.shares_between(milli, processors, hyperv) == shares


@pytest.mark.parametrize(
    ("milli", "count", "maximum"),
    [
        (1, 1, 10),
        (500, 1, 5000),
        (1000, 1, 10000),
        (1001, 2, 5000),  # 1001 / 2 = 500, x 10000 / 1000
        (1500, 2, 7500),
        (1999, 2, 9990),  # 999
        (2000, 2, 10000),
        (2001, 3, 6670),
        (95999, 96, 9990),  # 999.99
        (0, 0, 0),
    ],
)
def test_the_cap_of_each_processor_until_1_17(milli: int, count: int, maximum: int) -> None:
    assert windows.cpu_count_hyperv(milli) == count
    assert windows.cpu_maximum_hyperv(milli, count) == maximum


@pytest.mark.parametrize(
    ("milli", "processors", "maximum"),
    [(0, 4, 0), (1, 100, 1), (333, 4, 832), (333, 96, 34), (94000, 96, 9791), (96000, 4, 10000)],
)
def test_the_cap_of_all_processors(milli: int, processors: int, maximum: int) -> None:
    assert windows.cpu_maximum(milli, processors) == maximum


def sent(release: str, cpu: str, processors: int, isolation: str = "process") -> dict[str, str]:
    limits = {"cpu": cpu} if cpu else {}
    pod = pod_of({"containers": [{"name": "c", "limits": limits, "requests": {"cpu": "1"}}]})
    policy = policy_for(release, os="windows", capacity={"cpu": processors}, isolation=isolation)
    return files(windows_settings(policy, pod, pod.containers[0]))


def amounts(shares: int = 0, count: int = 0, maximum: int = 0) -> dict[str, str]:
    named = {"cpu_shares": shares, "cpu_count": count, "cpu_maximum": maximum}
    return {name: str(amount) for name, amount in named.items() if amount}


@pytest.mark.parametrize("release", ["1.10", "1.14", "1.17"])
def test_messages_until_1_17(release: str) -> None:
    assert sent(release, "", 4) == amounts(shares=5000)
    assert sent(release, "1", 4) == amounts(shares=5000, maximum=2500)
    assert sent(release, "96", 4) == amounts(shares=10000, maximum=10000)
    assert sent(release, "94", 96) == amounts(shares=9791, maximum=10000)
    assert sent(release, "", 4, "hyperv") == amounts(shares=10)
    assert sent(release, "1001m", 4, "hyperv") == amounts(shares=2499, count=2, maximum=5000)
    assert sent(release, "96", 4, "hyperv") == amounts(shares=10000, count=96, maximum=10000)


@pytest.mark.parametrize("isolation", ["process", "hyperv"])
def test_messages_from_1_18_on_have_a_cap_and_no_more(isolation: str) -> None:
    for release in ("1.18", "1.26", "1.27", "1.36"):
        assert sent(release, "", 4, isolation) == {}
        assert sent(release, "1001m", 4, isolation) == amounts(maximum=2502)
        assert sent(release, "96", 4, isolation) == amounts(maximum=10000)
    assert sent("1.26", "32", 96, isolation) == amounts(maximum=6666)
    assert sent("1.27", "32", 96, isolation) == amounts(maximum=3333)
    assert sent("1.26", "94", 96, isolation) == amounts(maximum=10000)
    assert sent("1.27", "94", 96, isolation) == amounts(maximum=9791)


@pytest.mark.parametrize(
    ("processors", "group"), [(1, 1), (64, 64), (72, 36), (96, 48), (128, 64), (192, 64), (129, 43)]
)
def test_the_processors_of_one_group(processors: int, group: int) -> None:
    assert windows.one_group(processors) == group
