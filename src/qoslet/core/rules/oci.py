"""OCI resource blocks: what runtimes write for a field, and why they refuse one.

Sources: opencontainers/cgroups (runc's library), runc, crun; verified with the runtimes of Debian
12, 13 and sid.
"""

from __future__ import annotations

from math import log2

from qoslet.core.rules.catalog import rule

FS1 = "opencontainers/cgroups fs"
FS2 = "opencontainers/cgroups fs2"
CRUN = "crun cgroup-resources.c"
SPEC = "OCI runtime-spec config-linux"


def bfq_to_io_weight(weight: int) -> int:
    """An OCI blkio weight (10..1000) on the io.weight scale (1..10000); 0 is "unset".

    Source: opencontainers/cgroups ConvertBlkIOToIOWeightValue; KEP-2254 prints the same
    formula for io.bfq.weight, which both runtimes write unscaled today.
    """
    if weight == 0:
        return 0
    return 1 + (weight - 10) * 9999 // 990


@rule("oci.same", f"{SPEC}; KEP-2254: y = x; {FS1}, fs2; {CRUN}")
def _same(field: str, value: object) -> str:
    return f"{field} {value}, unchanged"


@rule("oci.unlimited", f"{FS2} numToStr; {CRUN} cg_itoa")
def _unlimited(field: str, value: object) -> str:
    return f"{field} {value} -> no limit"


@rule("oci.cpu.weight.linear", "KEP-2254; runc <= 1.3.1, crun < 1.23")
def _linear(shares: int, weight: int) -> str:
    return f"1 + (shares {shares} - 2) x 9999 / 262142 = {weight}"


@rule("oci.cpu.weight.quadratic", "opencontainers/cgroups >= 0.0.3, runc >= 1.3.2, crun >= 1.23")
def _quadratic(shares: int, weight: int) -> str:
    if shares <= 2:
        return f"shares {shares}, at most 2 -> {weight}"
    if shares >= 262144:
        return f"shares {shares}, at least 262144 -> {weight}"
    level = log2(shares)
    return (
        f"L = log2(shares {shares}) = {level:.3f}; ceil(10^((L^2 + 125 L)/612 - 7/34)) = {weight}"
    )


@rule("oci.cpu.max", f"{FS2}/cpu.go; {CRUN} write_cpu_resources; KEP-2254: written together")
def _cpu_max(quota: int, period: int) -> str:
    limit = f"quota {quota} us" if quota > 0 else "no quota"
    every = f"period {period} us" if period else "no period -> 100000 us"
    return f"{limit}, {every}: one file"


@rule("oci.swap.difference", f"{FS2} ConvertMemorySwapToCgroupV2Value; {CRUN} write_memory_swap")
def _swap_difference(swap: int, limit: int) -> str:
    return f"memory+swap {swap} - limit {limit} = {swap - limit}"


@rule("oci.swap.unlimited", f"{FS2} ConvertMemorySwapToCgroupV2Value; {CRUN} write_memory_swap")
def _swap_unlimited(swap: int, limit: int) -> str:
    if swap == 0:
        return "memory limit -1 and no swap limit -> both unlimited"
    return f"memory+swap {swap} -> no limit"


@rule("oci.swap.alone", f"{FS2} ConvertMemorySwapToCgroupV2Value, runc >= 1.2.1")
def _swap_alone(swap: int) -> str:
    return f"memory limit -1, so memory+swap {swap} is the swap itself"


@rule("oci.swap.same", "KEP-2254: swap to memory.swap.max, y = x")
def _swap_same(swap: int) -> str:
    return f"swap {swap}, as in the document's table"


@rule("oci.swap.with-limit", f"{FS1}/memory.go setMemoryAndSwap")
def _swap_with_limit(limit: int) -> str:
    return f"memory limit {limit} and no swap limit -> both unlimited"


@rule("oci.pids", f"{FS2}/pids.go; {CRUN} write_pids_resources")
def _pids(limit: int) -> str:
    if limit < 0:
        return f"pids.limit {limit} -> no limit"
    return f"pids.limit {limit}" + (" -> 1, because 0 is not a limit" if not limit else "")


@rule("oci.io.weight.scaled", f"{FS2} ConvertBlkIOToIOWeightValue; {CRUN}; KEP-2254's formula")
def _io_scaled(weight: int, written: int, number: int = 1) -> str:
    formula = f"1 + (weight {weight} - 10) x 9999 / 990 = {written}"
    return formula if number == 1 else f"{formula}, the last of {number} weights"


@rule("oci.io.weight", f"{FS2}/io.go; {FS1}/blkio.go; {CRUN}: BFQ's weight is not scaled")
def _io_weight(weights: int) -> str:
    return "one weight, unchanged" if weights == 1 else f"{weights} weights, a line for each device"


@rule("oci.io.rates", f"{FS2}/io.go; {FS1}/blkio.go; {CRUN}; KEP-2254: rates unchanged")
def _io_rates(rates: int) -> str:
    return f"{rates} {'rate' if rates == 1 else 'rates'} of the block, one write each"


@rule("oci.hugetlb", f"{FS2}/hugetlb.go; {FS1}/hugetlb.go; {CRUN} write_hugetlb_resources")
def _hugetlb(size: str, limit: int) -> str:
    return f"pages of {size} up to {limit} bytes"


@rule("oci.hugetlb.rsvd", "opencontainers/cgroups hugetlb.go, runc >= 1.1.10; crun never")
def _rsvd(size: str, limit: int) -> str:
    return f"reservations of {size} pages up to the same {limit} bytes"


@rule("oci.unified", f"{FS2} setUnified; {CRUN} write_unified_resources: last, over all before")
def _unified(key: str) -> str:
    return f"unified {key}, unchanged"


@rule("refused.kernel", "the kernel's parser of the file; see the kernel documentation")
def _kernel(file: str, value: str, error: str, takes: str) -> str:
    return f"{file} accepts {takes}, not {value!r}: {error}"


@rule("refused.table", "KEP-2254, phase 1: the domains of its formulas")
def _refused_table(field: str, value: int, least: int, most: int) -> str:
    return f"KEP-2254 converts {field} from {least} to {most}, not {value}"


@rule("refused.bfq", "KEP-2254's formula; block/bfq-iosched.h BFQ_MAX_WEIGHT")
def _refused_bfq(weight: int, written: int, most: int) -> str:
    return (
        f"1 + (weight {weight} - 10) x 9999 / 990 = {written}, but io.bfq.weight accepts 1 to {most}:"
        " KEP-2254 has no value for weights above 108 (io.weight takes it: --without bfq)"
    )


@rule("refused.swap", f"{FS2} ConvertMemorySwapToCgroupV2Value; {CRUN} write_memory_swap")
def _refused_swap(swap: int, limit: int | None) -> str:
    return f"memory.swap {swap} counts memory and swap, so it cannot be below memory.limit {limit}"


@rule("refused.shares", f"{FS1}/cpu.go reads cpu.shares back")
def _refused_shares(shares: int, kept: int) -> str:
    return f"the kernel stores {kept} for {shares}, which the runtime rejects"


@rule("refused.swappiness", f"{FS1}/memory.go")
def _refused_swappiness(value: int) -> str:
    return f"swappiness {value} is not within 0 to 100"


@rule("refused.unified", f"{FS2} setUnified; crun write_unified_resources; ErrV1NoUnified")
def _refused_unified(key: str, why: str) -> str:
    return f"unified {key!r}: {why}" if key else why


@rule("refused.v2", f"{CRUN}: a field that cgroup v2 does not have")
def _refused_v2(field: str) -> str:
    return f"{field} has no file on cgroup v2, and crun does not ignore it"


@rule("refused.usage", f"{FS2} CheckMemoryUsage; {CRUN} check_before_update")
def _refused_usage(limit: int, usage: int) -> str:
    return f"limit {limit} is not above the usage {usage}"


@rule("refused.cri-o", "CRI-O container_create_linux.go: minimum memory limit, swap")
def _refused_cri_o(limit: int, least: int) -> str:
    return f"memory_limit_in_bytes {limit} must be at least {least} bytes"


@rule("unit.idle", "opencontainers/cgroups systemd, systemd >= 252: CPUWeight=0 is cpu.idle")
def _unit_idle(value: int) -> str:
    return f"cpu.idle {value} -> CPUWeight=idle, and no other weight"


@rule("unit.crun.swap", "crun cgroup-systemd.c get_memory_swap_max: not the difference")
def _crun_swap(swap: int) -> str:
    return f"crun sends memory+swap {swap} to systemd; the file that it writes afterwards holds the swap alone"


@rule("unit.crun.io", "crun cgroup-systemd.c IO_WEIGHT: systemd's BFQ conversion, backwards")
def _crun_io(weight: int, written: int) -> str:
    return f"weight {weight} of BFQ's scale -> IOWeight {written}"
