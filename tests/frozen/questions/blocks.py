"""The resource blocks and messages that are converted, some of them refused."""

from __future__ import annotations

import json
import random
from typing import Any

MIB = 1 << 20
Json = dict[str, Any]

MEMORY: tuple[Json, ...] = (
    {},
    *({"limit": limit} for limit in (0, -1, -5, 1, 4096, 64 * MIB, 100 * MIB + 1, 2**63 - 1)),
    *({"swap": swap} for swap in (0, -1, 64 * MIB)),
    *(
        {"limit": limit, "swap": swap}
        for limit, swap in (
            (0, -1), (-1, -1), (-1, 300), (1000, -1), (1000, 1000), (200, 500), (400, 300),
            (-300, 300), (-1, 0), (64 * MIB, 128 * MIB), (64 * MIB, 0),
        )
    ),
    {"reservation": 32 * MIB},
    {"reservation": 0},
    {"reservation": 128 * MIB, "limit": 64 * MIB},
    {"limit": 64 * MIB, "swappiness": 0},
    {"swappiness": 60},
    {"swappiness": 101},
    {"kernel": 64 * MIB},
    {"kernelTCP": 64 * MIB},
    {"disableOOMKiller": True},
    {"useHierarchy": True},
    {"limit": 64 * MIB, "checkBeforeUpdate": True},
)  # fmt: skip

CPU: tuple[Json, ...] = (
    {},
    *({"shares": n} for n in (0, 1, 2, 3, 51, 102, 512, 1024, 10240, 262143, 262144, 262145)),
    *({"quota": quota} for quota in (0, -1, 1, 999, 1000, 5000, 50000, (1 << 44) + 1)),
    *({"period": period} for period in (1, 999, 1000, 100000, 1000000, 1000001)),
    *(
        {"quota": quota, "period": period}
        for quota, period in ((5000, 10000), (33333, 100000), (-1, 50000), (500000, 1000000))
    ),
    {"quota": 5000, "period": 10000, "burst": 2000},
    {"quota": 5000, "period": 10000, "burst": 5001},
    {"burst": 100},
    {"idle": 1},
    {"idle": 0, "shares": 512},
    {"idle": 2},
    {"cpus": "0-1", "mems": "0"},
    {"cpus": "1-"},
    {"mems": "x"},
    {"realtimeRuntime": 1000, "realtimePeriod": 10000},
)

DEVICE = {"major": 8, "minor": 0}

OTHERS: tuple[Json, ...] = (
    *({"pids": {"limit": limit}} for limit in (-1, 0, 1, 1024, 4194305)),
    *({"blockIO": {"weight": weight}} for weight in (0, 1, 9, 10, 100, 500, 1000, 1001)),
    {"blockIO": {"leafWeight": 100}},
    {"blockIO": {"weight": 100, "weightDevice": [{**DEVICE, "weight": 200, "leafWeight": 300}]}},
    *(
        {"blockIO": {f"throttle{kind}Device": [{**DEVICE, "rate": rate}]}}
        for kind in ("ReadBps", "WriteBps", "ReadIOPS", "WriteIOPS")
        for rate in (0, 1048576)
    ),
    {"hugepageLimits": [{"pageSize": "2MB", "limit": 4 * MIB}, {"pageSize": "1GB", "limit": 0}]},
    {"hugepageLimits": [{"pageSize": "3MB", "limit": 1}]},
    {"network": {"classID": 1, "priorities": [{"name": "eth0", "priority": 5}]}},
    {"devices": [{"allow": False, "access": "rwm"}, {"allow": True, "type": "c", "major": 1}]},
    {"rdma": {"mlx5_0": {"hcaHandles": 2, "hcaObjects": 2000}}},
    {"memory": {"limitt": 5}, "cpu": {"shares": 2}},
)

UNIFIED: tuple[dict[str, str], ...] = (
    *(
        {"cpu.max": value}
        for value in ("max", "50000", "abc", " 60000 200000\n", "50000 x", "999", "max 99", "-1")
    ),
    {"cpu.max": "50000", "cpu.max.burst": "0x100"},
    *({"cpu.weight": value} for value in ("idle", "100\n", "0x64", " 100", "0", "10001")),
    *({"cpu.idle": value} for value in ("0", "1", "2")),
    {"cpu.idle": "1", "cpu.weight": "1000"},
    *({"memory.high": value} for value in ("100M", "104857600\n", "-1", "max\n", "much", "")),
    *({"memory.oom.group": value} for value in ("0", "1", " 1", "2")),
    *({"pids.max": value} for value in ("1024", "max", "-5", "4194305")),
    {"memory.min": "1048576", "memory.low": "2097152", "memory.swap.max": "max"},
    {"cpuset.cpus": "0-1", "cpuset.mems": "0"},
    {"io.max": "8:0 rbps=7000000 wbps=9000000"},
    {"io.weight": "default 100\n8:0 200"},
    {"io.bfq.weight": "100"},
    {"hugetlb.2MB.max": "4194304"},
    {"misc.max": "sev 1"},
    {"a/b": "1"},
    {"nodot": "1"},
    {"nosuch.max": "1"},
)

MESSAGES: tuple[Json, ...] = (
    {},
    {"cpu_shares": 512},
    {"cpu_shares": 2, "cpu_period": 100000, "cpu_quota": -1},
    {"cpu_period": 100000, "cpu_quota": 20000, "cpu_shares": 204, "memory_limit_in_bytes": 67108864},
    {"memory_limit_in_bytes": 67108864, "memory_swap_limit_in_bytes": 67108864},
    {"memory_limit_in_bytes": 67108864, "memory_swap_limit_in_bytes": 134217728},
    {"memory_limit_in_bytes": 67108864, "memory_swap_limit_in_bytes": -1},
    {"memoryLimitInBytes": "67108864", "oomScoreAdj": "990"},
    {"memory_limit_in_bytes": 1000},
    {"cpuset_cpus": "0-1", "cpuset_mems": "0", "oom_score_adj": -997},
    {"hugepage_limits": [{"page_size": "2MB", "limit": 4194304}, {"page_size": "1GB"}], "cpu_shares": 2},
    {"cpu_shares": 2, "unified": {"memory.high": "1932742656", "memory.swap.max": "0"}},
    {"cpu_shares": 2, "unified": {"memory.oom.group": "1", "memory.min": "0"}},
    {"cpu_shares": -1},
    {"cpu_sharess": 1},
    {"linux": {"cgroup_parent": "/kubepods/pod1", "resources": {"cpu_shares": 2}, "overhead": {}}},
)  # fmt: skip

WINDOWS: tuple[Json, ...] = (
    {"cpu_shares": 500},
    {"cpu_count": 2},
    {"cpu_maximum": 5000},
    {"cpu_shares": 500, "cpu_count": 2, "cpu_maximum": 5000, "memory_limit_in_bytes": 268435456},
    {"memory_limit_in_bytes": 268435456, "rootfs_size_in_bytes": 10737418240},
    {"cpu_maximum": 70000},
    {"cpu_maximum": 10001},
    {"windows": {"resources": {"cpu_maximum": 1250, "memory_limit_in_bytes": 1}}},
    {"windows": {"resources": {"cpu": {"count": 2, "maximum": 500}, "storage": {"iops": 5}}}},
    {"affinity_cpus": [{"cpu_mask": 3, "cpu_group": 0}], "cpu_count": 2},
)


def _random_block(rng: random.Random) -> Json:
    """A block with several parts."""
    found: Json = {
        "memory": rng.choice(MEMORY),
        "cpu": {**rng.choice(CPU), **rng.choice(CPU)},
        **rng.choice(OTHERS),
    }
    if rng.random() < 0.3:
        found["unified"] = {**rng.choice(UNIFIED), **rng.choice(UNIFIED)}
    return {name: part for name, part in found.items() if part}


def oci_blocks() -> dict[str, str]:
    """Blocks of the OCI by file name."""
    rng = random.Random(13)
    found: list[Json] = [
        *({"memory": one} for one in MEMORY),
        *({"cpu": one} for one in CPU),
        *OTHERS,
        *({"unified": one, "cpu": {"shares": 1024}} for one in UNIFIED),
        *(_random_block(rng) for _ in range(60)),
    ]
    made = {f"oci-{at:03}.json": json.dumps(one) for at, one in enumerate(found)}
    config = {
        "ociVersion": "1.2.0",
        "process": {"args": ["sh"], "oomScoreAdj": 10},
        "linux": {"cgroupsPath": "/a/b", "resources": {"cpu": {"shares": 512}}},
    }
    return {**made, "oci-config.json": json.dumps(config)}


def cri_messages() -> dict[str, str]:
    """Messages for Linux by file name."""
    return {f"cri-{at:02}.json": json.dumps(one) for at, one in enumerate(MESSAGES)}


def windows_messages() -> dict[str, str]:
    """Messages for Windows by file name."""
    return {f"win-{at:02}.json": json.dumps(one) for at, one in enumerate(WINDOWS)}
