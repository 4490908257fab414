"""How the vectors of cgroup names are run."""

from __future__ import annotations

from collections.abc import Callable

from qoslet.core.cgroup import names
from tests.core.vectors.vectors import Vector, runs

Pair = tuple[object, object]


@runs("to_systemd")
def to_systemd(vector: Vector, _: int) -> Pair:
    return names.to_systemd(vector.given["name"]), vector.expected


@runs("to_systemd_basename")
def unit_of(vector: Vector, _: int) -> Pair:
    return names.unit_of(vector.given["name"]), vector.expected


@runs("to_cgroupfs")
def to_cgroupfs(vector: Vector, _: int) -> Pair:
    return names.to_cgroupfs(vector.given["name"]), vector.expected


@runs("parse_systemd")
def from_systemd(vector: Vector, _: int) -> Pair:
    return list(names.from_systemd(vector.given["path"])), vector.expected


@runs("new_cgroup_name")
def extended(vector: Vector, _: int) -> Pair:
    given = vector.given
    base = names.from_cgroupfs(given["parse_cgroupfs"]) if "parse_cgroupfs" in given else ()
    return _or("panic", lambda: list(names.extend(base, *given["append"]))), vector.expected


def _or(word: str, make: Callable[[], object]) -> object:
    try:
        return make()
    except ValueError:
        return word


@runs("expand_slice")
def expanded(vector: Vector, _: int) -> Pair:
    return _or("error", lambda: names.expand_slice(vector.given["slice"])), vector.expected


@runs("node_allocatable_root")
def root(vector: Vector, _: int) -> Pair:
    given = vector.given
    found = names.root_of(given["cgroupRoot"], given["cgroupsPerQOS"])
    return names.concrete(found, given["driver"]), vector.expected


@runs("pod_cgroup_path")
def pod_path(vector: Vector, _: int) -> Pair:
    given = vector.given
    tier = [part for part in [names.QOS_DIRECTORY[given["qosClass"]]] if part]
    name = names.extend(given["root"], *tier, names.POD_PREFIX + given["uid"])
    return names.concrete(name, given["driver"]), vector.expected


@runs("pod_cgroup_suffix")
def pod_leaf(vector: Vector, _: int) -> Pair:
    return names.POD_PREFIX + vector.given["uid"], vector.expected


@runs("container_cgroup_name")
def container(vector: Vector, _: int) -> Pair:
    cri, parent, id = (vector.given[key] for key in ("runtime", "cgroupParent", "id"))
    leaf = names.container_leaf(cri, id, parent.endswith(names.SLICE))
    return {"cgroupsPath": names.cgroups_path(cri, parent, id), "leaf": leaf}, vector.expected
