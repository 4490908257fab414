"""Parity: what a kubelet would write is what stands in this kernel, file by file."""

from __future__ import annotations

from collections import Counter

import pytest

from qoslet.core.cgroup.interface_files import cpu_numbers
from qoslet.core.node.node import Hierarchy
from tests.contract.drivers import real
from tests.live.kernel.parity import QosTotals, check, plans

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

LEAST = 2000
"""Values that are compared on each system at least."""


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_every_value_of_the_recorded_kubelets_is_read_back(
    hierarchy: Hierarchy, record_property
) -> None:
    qos_totals = QosTotals()
    with real(hierarchy) as bench:
        hugetlb = bench.offers("hugetlb")
        for request, wanted in plans(hierarchy, bench.root, hugetlb=hugetlb):
            check(request, wanted, bench.driver, bench.observer, qos_totals)
            bench.clear()
        cpus = bench.facts.cpus or frozenset()
    record_property("driver", "cgroupfs")
    record_property("compared", qos_totals.compared)
    why = Counter((one.step.file, one.errno_name) for _, one in qos_totals.refused)
    record_property("refused", " ".join(f"{file}:{name}={n}" for (file, name), n in why.items()))
    assert qos_totals.different == []
    assert qos_totals.compared >= LEAST
    for request, one in qos_totals.refused:
        # CPUs that this machine does not have are the only reason to refuse a value.
        assert one.step.file == "cpuset.cpus", (request, one)
        assert one.errno_name in ("EINVAL", "ERANGE", "EACCES"), (request, one)
        assert not cpu_numbers(one.step.value) <= cpus, (request, one)
        assert "; " in (one.error or "")
