"""Resource blocks into files: blocks a second on one core, beside decoding and printing the same."""

from __future__ import annotations

import gc
import random
import time
from functools import partial

import msgspec

import qoslet
from bench.figures import Figure, paired, show

BLOCKS = 4000
ROUNDS = 7
LEAST = 20_000


def blocks() -> list[bytes]:
    """Blocks as a kubelet's runtime writes them: CPU, memory, swap, hugepages, Memory QoS."""
    rng = random.Random(7)
    found = []
    for _ in range(BLOCKS):
        limit = rng.randrange(1 << 24, 1 << 36)
        block = {
            "cpu": {
                "shares": rng.randrange(2, 262144),
                "quota": rng.randrange(1000, 800_000),
                "period": 100_000,
            },
            "memory": {"limit": limit, "swap": limit},
            "unified": {"memory.high": str(limit // 2), "memory.oom.group": "1"},
        }
        found.append(msgspec.json.encode(block))
    return found


def _timed(work: list[bytes], call: object) -> float:
    assert callable(call)
    gc.disable()
    begun = time.process_time()
    for text in work:
        call(text)
    spent = time.process_time() - begun
    gc.enable()
    return spent / len(work) * 1e6


def _convert(text: bytes) -> None:
    """From JSON to rows: files, values, what the kernel makes of them."""
    rows = qoslet.convert(text, "v2", source="oci", runtime="runc-1.3.2").parts[0].rows
    assert len(rows) == 6


def _floor(text: bytes) -> None:
    """The block decoded and six files' values printed, with nothing decided."""
    block = msgspec.json.decode(text)
    cpu, memory = block["cpu"], block["memory"]
    found = {
        "cpu.weight": str(cpu["shares"]),
        "cpu.max": f"{cpu['quota']} {cpu['period']}",
        "memory.max": str(memory["limit"]),
        "memory.swap.max": str(memory["swap"]),
    }
    assert len(found | block["unified"]) == 6


def main() -> None:
    """Measure and print."""
    work = blocks()
    ours, floor = paired(partial(_timed, work, _convert), partial(_timed, work, _floor), ROUNDS)
    rate = 1e6 / ours
    show(
        [
            Figure(
                "convert: one block, JSON in, rows out", "us", ours, floor, "decoded, printed", 20
            ),
            Figure("convert: time of a block (20,000 a second)", "us", ours, None, "", 1e6 / LEAST),
        ]
    )
    assert rate > 0


if __name__ == "__main__":
    main()
