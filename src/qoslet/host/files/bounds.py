"""How much one file may hold: what reading it costs follows from that."""

from __future__ import annotations

from msgspec import Struct

from qoslet.errors import BadInput


class FileLimits(Struct, frozen=True):
    """``size`` of a file and ``yaml_size`` of YAML text in bytes, ``values`` of a YAML document, or of
    the ``whole_file`` (an alias is one), ``documents`` with the items of lists. 0: no bound."""

    size: int = 0
    yaml_size: int = 64 * 1024 * 1024
    values: int = 5_000_000
    documents: int = 0
    whole_file: bool = False


READ_ONCE = FileLimits()
"""A file that a command reads before it does anything else."""

FOLLOWED = FileLimits(3 << 20, 3 << 20, 200_000, 10_000, whole_file=True)
"""A file that an agent reads between two syncs: about 3 s of CPU at the most. Twice what etcd takes
for one object (1.5 MiB), 2 KiB a pod for 1,500 pods, and more documents than a node runs pods."""

NODE = FileLimits(yaml_size=FOLLOWED.yaml_size, values=FOLLOWED.values, whole_file=True)
"""A file that describes the node of an agent: JSON of a whole cluster costs little, since only its
nodes are unfolded."""

BUNDLED = FileLimits(0, 3 << 20, 200_000, 20_000, whole_file=True)
"""A part of a bundle, which anyone may have made: the archive has a bound of size already."""


def too_many(bound: int, what: str, where: str) -> BadInput:
    """The fault of a file that holds more than its bound."""
    return BadInput(f"has more than {bound} {what}", where=where, hint="split the file")
