"""Unified maps that a kernel takes or refuses, most of one key: runc writes a map in any order."""

from __future__ import annotations

_NINES = "9" * 5000

MAPS: tuple[dict[str, str], ...] = (
    *(
        {"cpu.max": text}
        for text in ("max", "50000", "abc", " 60000 200000\n", "50000 x", "999", "max 99", "-1")
    ),
    {"cpu.max": "50000", "cpu.max.burst": "0x100"},
    {"cpu.max.burst": "abc"},
    *(
        {"cpu.weight": text}
        for text in ("idle", "100\n", "0x64", " 100", "0", "5\n6", "5\n\n6", "7\n", "9" * 30)
    ),
    {"cpu.idle": "2"},
    *(
        {"memory.high": text}
        for text in (
            "100M",
            "0x10000000",
            "104857600\n",
            "100 M",
            "-1",
            "max\n",
            "much",
            _NINES,
            "",
        )
    ),
    {"memory.oom.group": " 1"},
    {"memory.oom.group": "2"},
    *({"pids.max": text} for text in ("020000", "max\n", "-5", "4194305", "9" * 30, _NINES)),
    *(
        {"io.max": text}
        for text in (
            *("DISK rbps=7000000 wbps=9000000", "DISK rbps=7000000\nDISK wbps=9000000"),
            *(
                "DISK riops=max wiops=500\n",
                "DISK rbps=0",
                "DISK x=1",
                "DISK",
                "abc",
                "250:99 rbps=5",
            ),
        )
    ),
    *({"io.weight": text} for text in ("default 50", "60\n", "0", "default")),
    {"io.bfq.weight": "default 50"},
    *({"hugetlb.2MB.max": text} for text in ("abc", "5M")),
    *(
        {key: "1"}
        for key in (
            *("cgroup.nope", "cgroup.events", "cgroup.controllers", "cgroup.max.depth"),
            *("memory.current", "memory.foo", "pids.foo", "cpu.stat", "hugetlb.3MB.max", "foo.bar"),
            *(".x", "nodot", "a/b", ".", "..", ""),
        )
    ),
    {"misc.max": "abc"},
    {"rdma.max": "abc"},
    {"cgroup.subtree_control": "+abc"},
    {"cgroup.type": "domain"},
)


def on(device: str | None) -> list[dict[str, str]]:
    """The maps for a machine with that disk; without one those that name none."""
    return [
        {key: value.replace("DISK", device or "") for key, value in one.items()}
        for one in MAPS
        if device or not any("DISK" in value for value in one.values())
    ]
