"""How the vectors of quantities and of CPU conversions are run."""

from __future__ import annotations

from fractions import Fraction

from qoslet.core import quantity
from qoslet.core.rules import cpu
from qoslet.core.versions.runtime import runtime_of
from tests.core.vectors import read_back
from tests.core.vectors.fixtures import policy_for
from tests.core.vectors.vectors import Vector, runs

Pair = tuple[object, object]


def _exact(text: str) -> Fraction:
    return Fraction(quantity.parse(text).nano, quantity.NANO)


@runs("quantity_parse")
def parsed(vector: Vector, _: int) -> Pair:
    found = quantity.parse(vector.given["string"])
    wanted = Fraction(vector.expected["exact"]), vector.expected["format"]
    return (Fraction(found.nano, quantity.NANO), found.format), wanted


@runs("quantity_parse_sign")
def signed(vector: Vector, _: int) -> Pair:
    found, wanted = [], []
    for text in vector.given["strings"]:
        plain = quantity.parse(text)
        found += [
            (quantity.parse(sign + text).nano, quantity.parse(sign + text).format) for sign in "-+"
        ]
        wanted += [(-plain.nano, plain.format), (plain.nano, plain.format)]
    return found, wanted


@runs("quantity_parse_error")
def refused(vector: Vector, _: int) -> Pair:
    try:
        return str(quantity.parse(vector.given["string"])), vector.expected
    except quantity.QuantityError:
        return "error", vector.expected


@runs("quantity_canonical")
def printed(vector: Vector, _: int) -> Pair:
    return str(quantity.parse(vector.given["string"])), vector.expected


@runs("quantity_cmp")
def compared(vector: Vector, _: int) -> Pair:
    left, right = quantity.parse(vector.given["a"]), quantity.parse(vector.given["b"])
    return (right < left) - (left < right), vector.expected


@runs("quantity_extremes")
def extreme(vector: Vector, _: int) -> Pair:
    found = quantity.parse(vector.given["string"])
    whole = found.value if found.fast_int64 else None
    return {"asInt64": whole, "canonical": str(found)}, vector.expected


@runs("quantity_value_methods")
def methods(vector: Vector, _: int) -> Pair:
    found = quantity.parse(vector.given["string"])
    return {"Value": found.value, "MilliValue": found.milli}, vector.expected


@runs("milli_cpu_to_shares")
def shares(vector: Vector, _: int) -> Pair:
    return cpu.shares(vector.given["milliCPU"]), vector.expected


@runs("milli_cpu_to_quota")
def quota(vector: Vector, minor: int) -> Pair:
    policy = policy_for(
        minor,
        gates={"CustomCPUCFSQuotaPeriod": vector.given["customPeriodGate"]},
        cpu_cfs_quota_period_us=vector.given["periodUsec"],
    )
    return cpu.quota(vector.given["milliCPU"], policy.period_us), vector.expected


@runs("shares_to_milli_cpu")
def milli_of_shares(vector: Vector, _: int) -> Pair:
    return read_back.milli_of_shares(vector.given["cpuShares"]), vector.expected


@runs("shares_round_trip")
def round_trip(vector: Vector, _: int) -> Pair:
    milli = vector.given["milliCPU"]
    if isinstance(milli, int):
        return read_back.milli_of_shares(cpu.shares(milli)), vector.expected
    span = range(milli["from"], milli["to"] + 1, milli["step"])
    return [read_back.milli_of_shares(cpu.shares(m)) for m in span], [max(m, 2) for m in span]


@runs("quota_to_milli_cpu")
def milli_of_quota(vector: Vector, _: int) -> Pair:
    given = vector.given
    return read_back.milli_of_quota(given["quota"], given["periodUsec"]), vector.expected


@runs("kubelet_weight_to_shares")
def shares_of_weight(vector: Vector, _: int) -> Pair:
    return read_back.shares_of_weight(vector.given["cpuWeight"]), vector.expected


@runs("kubelet_shares_to_weight")
def weight_of_shares(vector: Vector, _: int) -> Pair:
    return cpu.weight_linear(vector.given["cpuShares"] or 0), vector.expected


@runs("cpu_shares_equal_after_v2_round_trip")
def kept(vector: Vector, _: int) -> Pair:
    given = vector.given
    read = read_back.shares_of_weight(cpu.weight_linear(given["allocatedShares"]))
    return given["readbackShares"] == read, vector.expected


QUADRATIC = ("runc-1.3.2", "runc-1.4.0", "crun-1.23", "containerd-2.2.0+runc-1.3.3")
LINEAR = ("runc-1.0.0", "runc-1.2.9", "runc-1.3.1", "crun-1.22")


@runs("oci_shares_to_weight_quadratic")
def quadratic(vector: Vector, _: int) -> Pair:
    found = {runtime_of(name).weight(vector.given["cpuShares"]) for name in QUADRATIC}
    return found, {vector.expected}


@runs("oci_shares_to_weight_linear")
def linear(vector: Vector, _: int) -> Pair:
    found = {runtime_of(name).weight(vector.given["cpuShares"]) for name in LINEAR}
    return found, {vector.expected}


@runs("mixed_scale_example")
def mixed(vector: Vector, _: int) -> Pair:
    amount = vector.given["cpuShares"]
    return {
        "podCgroupWeight": cpu.weight_linear(amount),
        "containerCgroupWeightNewRuntime": runtime_of("runc-1.4.0").weight(amount),
        "containerCgroupWeightOldRuntime": runtime_of("runc-1.3.1").weight(amount),
    }, vector.expected
