"""Parity: what a kubelet would write is what stands in this kernel, file by file."""

from __future__ import annotations

from collections import Counter

import pytest

from qoslet.core.cgroup.interface_files import cpu_numbers
from qoslet.core.node.node import Hierarchy
from tests.contract.drivers import real
from tests.live.kernel.parity import Tally, check, plans

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

LEAST = 2000
"""Values that are compared on each system at least."""


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_every_value_of_the_recorded_kubelets_is_read_back(
    hierarchy: Hierarchy, record_property
) -> None:
    tally = Tally()
    with real(hierarchy) as bench:
        hugetlb = bench.offers("hugetlb")
        for request, wanted in plans(hierarchy, bench.root, hugetlb=hugetlb):
            check(request, wanted, bench.driver, bench.observer, tally)
            bench.clear()
        cpus = bench.facts.cpus or frozenset()
    record_property("driver", "cgroupfs")
    record_property("compared", tally.compared)
    why = Counter((one.step.file, one.errno_name) for _, one in tally.refused)
    record_property("refused", " ".join(f"{file}:{name}={n}" for (file, name), n in why.items()))
    assert tally.different == []
    assert tally.compared >= LEAST
    for request, one in tally.refused:
        # CPUs that this machine does not have are the only reason to refuse a value.
        assert one.step.file == "cpuset.cpus", (request, one)
        assert one.errno_name in ("EINVAL", "ERANGE", "EACCES"), (request, one)
        assert not cpu_numbers(one.step.value) <= cpus, (request, one)
        assert "; " in (one.error or "")
