"""What is booted: one row per system, and what each of them must show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SUITES: Final = ("tests/live", "tests/contract", "tests/vm")
# Kernel words that give systemd up to 255 the hierarchies of old; 256 and 257 want one word more.
_LEGACY: Final = "systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller"
_HYBRID: Final = "systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller=0"
_SYSTEMD: Final = "tests/live/systemd/test_systemd.py"
_SYSTEMD_APPLY: Final = "tests/live/systemd/test_systemd_apply.py"
_RUNS: Final = ("killed_and_begun_again_converges", "tells_an_oom_kill_and_starts_again")
_APPLIES: Final = (
    *("follows_the_manifests", "goes_near_a_limit_in_use", "where_control_groups_are_read_only"),
)
# Two sockets of one core with two threads, each with memory of its own.
_TWO_NODES: Final = (
    *("-smp", "4,sockets=2,cores=1,threads=2", "-m", "2048"),
    *("-object", "memory-backend-ram,id=m0,size=1G", "-object", "memory-backend-ram,id=m1,size=1G"),
    *("-numa", "node,nodeid=0,cpus=0-1,memdev=m0", "-numa", "node,nodeid=1,cpus=2-3,memdev=m1"),
)
# What runs for years, in guests of its own: its tests wait more than they work.
_MANAGERS: Final = tuple(
    f"tests/live/managers/test_{name}.py" for name in ("managers", "managers_agent")
)
_LOOP: Final = tuple(f"tests/live/agent/test_{name}.py" for name in ("agent", "keeper"))
_AGENT: Final = (
    *_LOOP,
    *(f"tests/live/agent/test_{name}.py" for name in ("reserved", "resize", "soak")),
    *(f"tests/live/adoption/test_{name}.py" for name in ("agent_killed", "held")),
    *_MANAGERS,
    *(f"tests/live/volumes/test_{name}.py" for name in ("volumes", "volumes_run")),
    "tests/live/systemd/test_unit.py",
)
# What the agent does alike on every kernel; the live tests of the host run it on each change.
_ALIKE: Final = (
    "tests/live/adoption/test_damaged_state.py",
    "tests/live/audit/test_watch.py",
    "tests/live/volumes/test_folders_run.py",
    *(
        f"tests/live/agent/test_{name}.py"
        for name in ("descriptors", "failed_start", "ps", "run_output", "service_output", "walk")
    ),
)
_GUARD: Final = "tests/live/memory/test_guard.py"
# Memory under stress, of which the guard is everybody's, and what other people's runtimes do.
_STRESS: Final = tuple(
    f"tests/live/memory/test_{name}.py"
    for name in ("memory_events", "memory_qos", "pressure", "protection")
)
_ZOO: Final = ("tests/live/memory/zoo/test_zoo.py",)
# A small C compiler, and the headers that it needs.
_COMPILER: Final = (
    *("libc-dev-bin", "libc6-dev", "libcrypt-dev", "linux-libc-dev", "rpcsvc-proto", "tcc"),
)
_MEMORY: Final = (_GUARD, *_STRESS)
_OCI: Final = tuple(
    f"tests/live/oci/test_{name}.py"
    for name in ("first_start", "hooks", "oci", "oci_run", "probes", "unended")
)
# The seccomp profile of RuntimeDefault with runc and crun; what it needs is not installed.
_PROFILE: Final = ("golang-github-containers-common",)
_CRI: Final = tuple(
    f"tests/live/cri/test_{name}.py"
    for name in ("cri", "cri_agents", "cri_faults", "cri_files", "nri", "other_clients")
)
_UPGRADE: Final = ("tests/live/adoption/test_upgrade.py",)
_APART: Final = (*_AGENT, *_ALIKE, *_STRESS, *_ZOO, *_OCI, *_CRI, *_UPGRADE)
# What another run has on the same hierarchy, and no newer kernel does otherwise.
_COVERED: Final = (
    "tests/live/audit",
    "tests/live/guest",
    "tests/live/cri/test_cri_files.py",
    *(f"tests/live/agent/test_{name}.py" for name in ("bundle", "run")),
)
# Kills and other processes between any two steps: every kernel of a hierarchy gives the same errors.
_BETWEEN_STEPS: Final = tuple(
    f"tests/live/kernel/test_{name}.py" for name in ("apply_faults", "killed")
)
# apply with kills at all moments, and what bounds a pod: another kernel of v1 gives the same.
_APPLIED: Final = ("tests/live/kernel/test_apply.py", "tests/live/memory/test_effective.py")
# What the guard leaves alone, and what it only says; two decisions on each kernel remain.
_UNDECIDED: Final = tuple(
    f"{_GUARD}::test_v2_{name}"
    for name in (
        *("nobody_else_is_touched", "observed_it_is_said_and_nothing_is_done"),
        *("systemd_is_told_of_memory_high", "unguarded_it_hangs_at_memory_high"),
        *("what_fits_its_limit_finishes_in_time", "without_a_limit_it_is_raised_until_it_fits"),
        "with_swap_it_is_left_alone_until_that_is_full",
    )
)
# What is no kernel's matter: which signal came, how long an agent runs, whose turn it is.
_ONCE: Final = (
    "tests/live/agent/test_soak.py",
    "tests/live/adoption/test_agent_killed.py::test_keepers_are_killed_at_any_moment",
    *(
        f"tests/live/agent/test_bundle.py::test_{name}"
        for name in (
            "a_redacted_bundle_of_a_running_agent",
            "the_audit_of_a_bundle_is_that_of_the_machine",
        )
    ),
    *(
        f"tests/live/agent/test_run.py::test_{name}"
        for name in ("a_second_signal_hurries", "a_signal_leaves_no_group_and_no_process")
    ),
    *(
        f"tests/live/audit/test_fix.py::test_{name}"
        for name in ("a_crash_at_any_boundary_is_recovered", "two_at_once_and_nothing_to_do")
    ),
    "tests/live/guest/test_agent.py::test_a_writer_that_resets_each_second_is_no_fight_without_end",
    "tests/live/guest/test_agent.py::test_values_are_kept_where_that_is_asked",
)
# Whole modules of the agent of which no row is a kernel's matter.
_NO_KERNELS: Final = (
    "tests/live/adoption/test_agent_killed.py",
    "tests/live/agent/test_run.py",
    "tests/live/volumes/test_volumes.py",
)
# A thousand blocks through runc, of which a guest repeats a hundred; crun refuses a hybrid machine.
_RUNC_BLOCKS: Final = (
    "tests/live/oci/test_convert.py::test_convert_says_what_a_runtime_writes[runc]",
)
# The newest runtimes write the blocks, the newest kernel reads the texts.
_BY_THE_NEWEST: Final = (
    "tests/live/kernel/test_kernel_texts.py",
    "tests/live/oci/test_convert.py::test_convert_says_what_a_runtime_writes[crun]",
    "tests/live/oci/test_convert.py::test_convert_says_what_a_runtime_writes[runc]",
)
# What is of one hierarchy and not of its kernels.
_BY_ANOTHER: Final = (
    "tests/live/agent/test_foreign_cgroups.py",
    "tests/live/systemd/test_systemd_user.py",
    "tests/live/oci/test_convert.py::test_convert_says_what_becomes_of_unified_texts_v2[crun]",
    "tests/live/oci/test_convert.py::test_convert_says_what_becomes_of_unified_texts_v2[runc]",
)
# What run and apply do alike through every systemd of a hierarchy.
_THROUGH_THE_NEWEST: Final = (
    *(f"{_SYSTEMD}::test_systemd_run_{name}" for name in _RUNS),
    *(f"{_SYSTEMD_APPLY}::test_systemd_apply_{name}" for name in _APPLIES),
)
# What the live tests of a machine with that hierarchy show as well.
_ALSO_LIVE: Final = (
    "tests/live/agent/test_foreign_cgroups.py",
    "tests/live/kernel/test_kernel_texts.py",
)
# What a keeper and a runtime's driver do alike on every kernel.
_KEPT: Final = ("tests/contract/test_runtimes.py", "tests/live/oci/test_keeper_imports.py")
_FORCED: Final = f"{_LEGACY} SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1"


@dataclass(frozen=True)
class System:
    """A Debian suite, the hierarchy it is booted into, and why it cannot be had, if so. Of a kernel
    that ``lacks`` controllers only those tests can be had that need none of them: ``only``, as
    words for pytest. ``machine`` are words for QEMU; ``packages`` are installed after the boot.
    Of the moments at which tests kill, a short run takes one in three: from ``third`` on. It leaves
    out the modules and tests that are ``covered`` by another system, and those that are ``shown`` by
    the live tests of the machine, where they ran before: on any hierarchy (""), or on that one only.
    Where tests are ``timed``, processors of a guest run side by side; in turns they take a fifth less."""

    name: str
    suite: str
    hierarchy: str
    words: str = ""
    missing: str = ""
    lacks: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    machine: tuple[str, ...] = ("-smp", "2", "-m", "2048")
    packages: tuple[str, ...] = ()
    third: int | None = None
    timed: bool = False
    covered: tuple[str, ...] = ()
    shown: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def suites(self, *, whole: bool, live: str = "") -> tuple[str, ...]:
        """What is run here, as words for pytest; ``whole`` in the long matrix. ``live`` is the
        hierarchy of this machine if its live tests ran before."""
        left_out = () if whole else self.covered
        for on, names in self.shown:
            if live and not whole and on in ("", live):
                left_out += names
        if self.only:
            tests = (_without(word) for word in left_out if "::" in word)
            return (*(word for word in self.only if word not in left_out), *tests)
        return (*SUITES, *map(_without, (*_APART, *left_out)))

    def floors(self) -> dict[str, int | None]:
        """What each driver must compare here at least."""
        return {} if self.only else FLOORS


def _without(name: str) -> str:
    """The word for pytest that leaves out a module or a test."""
    return f"--{'deselect' if '::' in name else 'ignore'}={name}"


# `make test-vm`, on every change; what takes longest first.
SHORT: Final = (
    System(
        "trixie",
        "trixie",
        "v2",
        third=1,
        covered=(_GUARD, *_BY_THE_NEWEST, *_THROUGH_THE_NEWEST),
        shown=(("v2", _COVERED), ("", (*_ONCE, *_NO_KERNELS, *_KEPT))),
    ),
    System(
        "bookworm",
        "bookworm",
        "v1",
        _LEGACY,
        third=0,
        shown=(
            (
                "v1",
                (*_COVERED, *_KEPT, *_BETWEEN_STEPS, *_RUNC_BLOCKS, *_APPLIED, *_ALSO_LIVE),
            ),
        ),
    ),
    System(
        "sid",
        "sid",
        "v2",
        third=2,
        covered=(*_COVERED, *_KEPT, *_BETWEEN_STEPS, *_APPLIED, *_BY_ANOTHER, *_UNDECIDED),
    ),
    System(
        "trixie-agent", "trixie", "v2", only=_AGENT, shown=(("", (*_LOOP, *_ONCE, *_NO_KERNELS)),)
    ),
    System("trixie-zoo", "trixie", "v2", only=(*_ZOO, _GUARD), packages=_COMPILER, timed=True),
)

# `make test-vm-full` boots these as well.
LONG: Final = (
    System("trixie-memory", "trixie", "v2", only=_MEMORY, timed=True),
    System("sid-memory", "sid", "v2", only=_MEMORY, timed=True),
    System("sid-zoo", "sid", "v2", only=_ZOO, packages=_COMPILER, timed=True),
    System("trixie-cri", "trixie", "v2", only=_CRI),
    System("trixie-oci", "trixie", "v2", only=_OCI, packages=_PROFILE),
    System("sid-cri", "sid", "v2", only=_CRI),
    System("sid-oci", "sid", "v2", only=_OCI, packages=_PROFILE),
    System("bookworm-cri", "bookworm", "v1", _LEGACY, only=_CRI),
    System("bookworm-oci", "bookworm", "v1", _LEGACY, only=_OCI, packages=_PROFILE),
    System("bookworm-agent", "bookworm", "v1", _LEGACY, only=_AGENT),
    System("sid-agent", "sid", "v2", only=_AGENT),
    System("trixie-alike", "trixie", "v2", only=_ALIKE),
    System("bookworm-alike", "bookworm", "v1", _LEGACY, only=_ALIKE),
    System("trixie-upgrade", "trixie", "v2", only=_UPGRADE),
    System("bookworm-upgrade", "bookworm", "v1", _LEGACY, only=_UPGRADE),
    System("sid-upgrade", "sid", "v2", only=_UPGRADE),
    System("bookworm-hybrid", "bookworm", "hybrid", _HYBRID),
    System("bookworm-v2", "bookworm", "v2"),
    System(
        "trixie-v1",
        "trixie",
        "v1",
        _FORCED,
        lacks=("cpuset", "memory"),
        only=(
            "tests/vm",
            _SYSTEMD,
            f"--deselect={_SYSTEMD}::test_systemd_run_killed_and_begun_again_converges",
            f"--deselect={_SYSTEMD}::test_systemd_parity_with_the_recorded_kubelets",
        ),
    ),
    System("trixie-nopsi", "trixie", "v2", "psi=0"),
    System(
        "trixie-numa",
        "trixie",
        "v2",
        "numa_balancing=disable",
        only=_MANAGERS,
        machine=_TWO_NODES,
    ),
    System(
        "trixie-peers",
        "trixie",
        "v2",
        only=("tests/live/memory/test_pressure.py",),
        packages=("libjsoncpp26", "oomd", "systemd-oomd"),
        timed=True,
    ),
    System("sid-v1", "sid", "v1", missing="systemd 258 and newer know no v1"),
)

ALL: Final = {system.name: system for system in (*SHORT, *LONG)}

# How many values each driver must at least compare in each system; where None stands, a driver
# without tests is only said.
FLOORS: Final[dict[str, int | None]] = {"cgroupfs": 2000, "systemd": 2000}

PACKAGES: Final = (
    "busybox-static",
    "containerd",
    "crun",
    "dbus",
    "dbus-user-session",
    "initramfs-tools",
    "iproute2",
    "kmod",
    "libpam-systemd",
    "linux-image-cloud-amd64",
    "procps",
    "python3",
    "runc",
    "strace",
    "systemd",
    "systemd-sysv",
    "udev",
    "umoci",
)

# How long an image is good for: a suite that moves is built again each week.
DAYS: Final = {"sid": 7}
DAYS_OF_RELEASES: Final = 28
