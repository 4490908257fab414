"""Random OCI resource blocks of one seed: most are taken, some a runtime or the kernel refuses."""

from __future__ import annotations

import random
from typing import Any

from qoslet.core.cgroup.features import KernelFeatures
from qoslet.core.versions.runtime import converting_runtime

MIB = 1 << 20
Json = dict[str, Any]

_SHARES = (2, 3, 51, 102, 512, 1024, 2048, 10240, 200000, 262143, 262144)


class Blocks:
    """Makes blocks that fit a kernel; ``create`` keeps what a container needs to come up."""

    def __init__(self, seed: int, hierarchy: str, runtime: str, ground: KernelFeatures) -> None:
        self._random = random.Random(seed)
        self._v2 = hierarchy == "v2"
        # where it is not known, so low a limit kills the container
        self._checks = converting_runtime(runtime).check
        self._ground = ground

    def one(self, create: bool = False) -> Json:
        """A block; one in five has something that is refused."""
        rng = self._random
        parts = {
            "memory": self._memory,
            "cpu": self._cpu,
            "pids": lambda: self._pids(create),
            "blockIO": self._io,
        }
        block: Json = {name: make() for name, make in parts.items() if rng.random() < 0.6}
        if self._ground.sizes and rng.random() < 0.3:
            size = rng.choice(self._ground.sizes)
            block["hugepageLimits"] = [{"pageSize": size, "limit": rng.randrange(1 << 34)}]
        if self._v2 and rng.random() < 0.4:
            block["unified"] = self._unified(create)
        if rng.random() < 0.2:
            self._spoil(block, create)
        return {name: part for name, part in block.items() if part}

    def _memory(self) -> Json:
        rng = self._random
        made: Json = {}
        limit = rng.choice((-1, rng.randrange(64 * MIB, 1 << 40), 64 * MIB * rng.randrange(1, 99)))
        if rng.random() < 0.8:
            made["limit"] = limit
            if rng.random() < 0.6:
                more = rng.choice((0, rng.randrange(1 << 32)))
                made["swap"] = -1 if limit == -1 or rng.random() < 0.2 else limit + more
        if rng.random() < 0.4:
            made["reservation"] = rng.choice((rng.randrange(1 << 36), 32 * MIB))
        if not self._v2 and rng.random() < 0.2:
            made["swappiness"] = rng.randrange(101)
        if not self._v2 and rng.random() < 0.1:
            made["disableOOMKiller"] = True
        if self._v2 and rng.random() < 0.1:
            made["checkBeforeUpdate"] = True
        return made

    def _cpu(self) -> Json:
        rng = self._random
        made: Json = {}
        if rng.random() < 0.7:
            made["shares"] = rng.choice((rng.randrange(2, 262145), rng.choice(_SHARES)))
        elif rng.random() < 0.3:
            made["idle"] = rng.randrange(2)
        if rng.random() < 0.5:
            made["period"] = rng.choice((100000, rng.randrange(1000, 1000001)))
        if rng.random() < 0.6:
            made["quota"] = rng.choice(
                (-1, rng.randrange(1000, 2000000), 100 * rng.randrange(10, 999))
            )
            if made["quota"] > 0 and rng.random() < 0.3:
                made["burst"] = rng.randrange(made["quota"])
        cpus = sorted(self._ground.cpus or {0})
        if rng.random() < 0.3:
            made["cpus"] = rng.choice(
                (str(cpus[0]), f"{cpus[0]}-{cpus[-1]}", ",".join(map(str, cpus)))
            )
        if rng.random() < 0.2:
            made["mems"] = "0"
        return made

    def _pids(self, create: bool) -> Json:
        rng = self._random
        return {"limit": rng.choice((-1, rng.randrange(128, 4194305), 0 if not create else 512))}

    def _io(self) -> Json:
        rng = self._random
        made: Json = {}
        if rng.random() < 0.5 and (self._ground.bfq or self._ground.iocost):
            made["weight"] = rng.randrange(10, 1001)
        for device in self._ground.devices or ():
            major, minor = map(int, device.split(":"))
            for kind in ("ReadBps", "WriteBps", "ReadIOPS", "WriteIOPS"):
                if rng.random() < 0.3:
                    rate = rng.randrange(1, 1 << 31)
                    made[f"throttle{kind}Device"] = [{"major": major, "minor": minor, "rate": rate}]
        return made

    def _unified(self, create: bool) -> Json:
        rng = self._random
        every = {
            "memory.high": str(rng.randrange(64 * MIB, 1 << 40)),
            "memory.min": str(rng.randrange(1 << 30)),
            "memory.oom.group": rng.choice("01"),
            "memory.swap.max": rng.choice(("max", str(rng.randrange(1 << 34)))),
            "cpu.weight": str(rng.randrange(1, 10001)),
            "pids.max": rng.choice(("max", "512")),
            "cpu.max": f"{rng.choice(('max', rng.randrange(1000, 10**6)))} {rng.randrange(1000, 10**6)}",
        }
        return {key: every[key] for key in rng.sample(sorted(every), rng.randrange(1, 4))}

    def _spoil(self, block: Json, create: bool) -> None:
        """Put in one thing that is refused, or that the version passes over."""
        rng = self._random
        wrong = [
            ("memory", {"limit": -5}),
            ("memory", {"limit": 512 * MIB, "swap": 256 * MIB}),
            ("cpu", {"shares": rng.choice((1, 262145, 10**7))}),
            ("cpu", {"period": rng.choice((1, 999, 1000001))}),
            ("cpu", {"quota": rng.choice((1, 999, (1 << 44) + 1))}),
            ("cpu", {"cpus": rng.choice(("4000-4010", "1-", "x"))}),
            ("cpu", {"mems": "x"}),
            ("pids", {"limit": 4194305}),
            ("blockIO", {"weight": rng.choice((1, 9, 1001, 20000))}),
            ("memory", {"swappiness": 101}),
        ]
        if self._v2:
            wrong += [
                ("memory", {"swap": 256 * MIB}),
                ("memory", {"limit": -1, "swap": 256 * MIB}),
                ("memory", {"swappiness": 50}),
                ("memory", {"kernel": 64 * MIB}),
                ("memory", {"kernelTCP": 64 * MIB}),
                ("memory", {"disableOOMKiller": True}),
                ("memory", {"useHierarchy": True}),
                ("cpu", {"idle": rng.choice((-1, 2))}),
                ("cpu", {"idle": 1, "shares": 512}),
                ("cpu", {"quota": 5000, "period": 10000, "burst": 5001}),
                ("cpu", {"realtimeRuntime": 1000}),
                ("cpu", {"realtimePeriod": 1000}),
                ("network", {"classID": 1}),
                ("hugepageLimits", [{"pageSize": "3MB", "limit": 0}]),
                ("unified", {"a/b": "1"}),
                ("unified", {"nodot": "1"}),
                ("unified", {"nosuch.max": "1"}),
                ("unified", {"memory.high": "much"}),
                ("blockIO", {"throttleReadBpsDevice": [{"major": 250, "minor": 99, "rate": 5}]}),
            ]
            if not create and self._checks:
                wrong.append(("memory", {"limit": 4096, "checkBeforeUpdate": True}))
        else:
            wrong.append(("unified", {"memory.high": "67108864"}))
        name, what = rng.choice(wrong)
        block[name] = what
