"""Statistics in the CRI's shape, from the texts of a group's files."""

from __future__ import annotations

import json

import jsonschema

from qoslet import schema
from qoslet.core.cgroup.usage.stats import processes, rate, usage, with_rate

NOW = 1_700_000_000_000_000_000

V1 = {
    "cpuacct.usage": "123456789\n",
    "memory.usage_in_bytes": "1000000\n",
    "memory.stat": "rss 1\ntotal_rss 400000\ntotal_inactive_file 300000\ntotal_pgfault 7\n"
    "total_pgmajfault 2\nswap 1\ntotal_swap 10\n",
    "memory.limit_in_bytes": "2000000\n",
    "pids.current": "3\n",
}
V2 = {
    "cpu.stat": "usage_usec 123\nuser_usec 100\n",
    "cpu.pressure": "some avg10=1.50 avg60=0.20 avg300=0.00 total=77\n"
    "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    "io.pressure": "some avg10=0.50 avg60=0.00 avg300=0.00 total=8\n"
    "full avg10=0.25 avg60=0.00 avg300=0.00 total=5\n",
    "memory.current": "1000000\n",
    "memory.stat": "anon 400000\ninactive_file 300000\npgfault 7\npgmajfault 2\n",
    "memory.max": "2000000\n",
    "memory.swap.current": "10\n",
    "memory.swap.max": "50\n",
    "pids.current": "3\n",
}


def test_both_hierarchies_tell_the_same() -> None:
    one, two = usage(V1, False, NOW), usage(V2, True, NOW)
    assert one["memory"] == {key: two["memory"][key] for key in one["memory"]}
    assert one["swap"]["swapUsageBytes"] == two["swap"]["swapUsageBytes"]
    assert one["memory"]["workingSetBytes"] == {"value": "700000"}
    assert one["memory"]["availableBytes"] == {"value": "1300000"}
    assert one["cpu"]["usageCoreNanoSeconds"] == {"value": "123456789"}
    assert two["cpu"]["usageCoreNanoSeconds"] == {"value": "123000"}
    assert processes(V1, NOW) == processes(V2, NOW)


def test_pressure_and_swap_are_told_where_they_are() -> None:
    found = usage(V2, True, NOW)
    assert found["cpu"]["psi"]["Some"] == {
        "Total": "77000", "Avg10": 1.5, "Avg60": 0.2, "Avg300": 0.0,
    }  # fmt: skip
    assert "psi" not in found["memory"]
    assert found["swap"]["swapAvailableBytes"] == {"value": "40"}
    assert found["io"] == {
        "timestamp": str(NOW),
        "psi": {
            "Some": {"Total": "8000", "Avg10": 0.5, "Avg60": 0.0, "Avg300": 0.0},
            "Full": {"Total": "5000", "Avg10": 0.25, "Avg60": 0.0, "Avg300": 0.0},
        },
    }
    assert "io" not in usage(V1, False, NOW)
    without = {**V1, "memory.stat": "total_rss 1\n"}
    assert "swap" not in usage(without, False, NOW)


def test_what_is_told_conforms() -> None:
    for files, v2 in ((V1, False), (V2, True)):
        found = usage(files, v2, NOW)
        one = {"attributes": {"id": "a", "metadata": {"name": "app", "attempt": 0}}, **found}
        pod: dict[str, object] = {
            key: found[key] for key in ("cpu", "memory", "io") if key in found
        }
        linux = {**pod, **processes(files, NOW), "containers": [one]}
        names = {"name": "web", "uid": "u1", "namespace": "shop"}
        stats = [{"attributes": {"id": "u1", "metadata": names}, "linux": linux}]
        jsonschema.validate({"stats": stats}, json.loads(schema.text("podstats")))


def test_no_limit_leaves_nothing_available() -> None:
    for files, v2 in ((V1, False), (V2, True)):
        free = {**files, "memory.max": "max", "memory.limit_in_bytes": "9223372036854771712"}
        assert "availableBytes" not in usage(free, v2, NOW)["memory"]


def test_what_cannot_be_read_is_left_out() -> None:
    assert usage({}, True, NOW) == {}
    assert processes({}, NOW) == {}
    odd = {"cpu.stat": "usage_usec x\n\n", "memory.current": "-", "cpu.pressure": "some a\nfull\n"}
    assert usage(odd, True, NOW) == {}


def test_a_rate_lies_between_two_looks() -> None:
    first = usage(V2, True, NOW)["cpu"]
    later = usage({**V2, "cpu.stat": "usage_usec 500123\n"}, True, NOW + 10**9)["cpu"]
    assert rate(first, later) == 500_000_000
    assert rate(later, first) is None
    assert rate({}, later) is None
    assert with_rate(later, None) == later
    assert with_rate(later, first)["usageNanoCores"] == {"value": "500000000"}
