"""The parts of a bundle: the files in its archive, and what each says.

The layout is a contract: JSON stands where YAML is named, a part that is not known is ignored, and
only what a command needs must be there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

BUNDLE = "bundle.json"
MACHINE = "machine.yaml"
KUBELET = "kubelet.yaml"
NODE = "node.json"
PODS = "pods.json"
CGROUPS = "cgroups.jsonl"
UNITS = "units.jsonl"
DOCTOR = "doctor.json"

PARTS: Mapping[str, str] = {
    BUNDLE: "when and by which versions it was made, and what it lacks",
    MACHINE: "qoslet's Node document: what the machine is",
    KUBELET: "the KubeletConfiguration in force",
    NODE: "the node as the API has it",
    PODS: "the pods as a List",
    CGROUPS: "a line for each cgroup: its files, processes and inode",
    UNITS: "a line for each unit: its properties, as systemctl show prints them",
    DOCTOR: "what qoslet doctor saw",
}
"""Each part with what it says."""

NODE_PARTS = (MACHINE, KUBELET, NODE)
"""The parts that describe the node."""


class Bundle(Struct, frozen=True):
    """What an archive holds. ``name`` is the archive's in messages, ``parts`` text by part,
    ``unknown`` the names of other files in it."""

    name: str
    parts: Mapping[str, bytes]
    unknown: tuple[str, ...] = ()

    def place(self, part: str) -> str:
        """The part's name in messages."""
        return f"{self.name}: {part}"

    def texts(self, *parts: str) -> Iterator[tuple[str, bytes]]:
        """Those of ``parts`` that are there, each with its name in messages."""
        for part in parts:
            if part in self.parts:
                yield self.place(part), self.parts[part]
