"""Seccomp profiles: whose word counts, and a distribution's as ``linux.seccomp``."""

from typing import Any

import pytest

from qoslet.core.workload.container_spec import ContainerSpec, SeccompProfiles
from qoslet.core.workload.env import PodEnvironment
from qoslet.core.workload.oci.oci_spec import read_oci
from qoslet.core.workload.pod_reader import read
from qoslet.core.workload.security.seccomp import (
    SeccompHost,
    localhost_filter,
    path_fault,
    profile_of,
    runtime_filter,
)
from tests.core.workload.test_process_spec import document_of, pod_of

AMD64 = SeccompHost("amd64", "6.1.0-13-amd64", frozenset({"CAP_CHOWN", "CAP_KILL"}))

PROFILE: dict[str, Any] = {
    "defaultAction": "SCMP_ACT_ERRNO",
    "defaultErrnoRet": 1,
    "defaultErrno": "ENOSYS",
    "archMap": [
        {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]},
        {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_ARM"]},
    ],
}


def rules(machine: SeccompHost, *entries: dict[str, Any]) -> list[dict[str, Any]]:
    """What of some entries applies."""
    base = [{"action": "SCMP_ACT_ALLOW", **entry} for entry in entries]
    made = runtime_filter({**PROFILE, "syscalls": base}, machine)
    assert made is not None
    found: list[dict[str, Any]] = made["syscalls"]
    return found


@pytest.mark.parametrize(
    ("above", "own", "told"),
    [
        ({}, {}, ""),
        ({"seccompProfile": {"type": "RuntimeDefault"}}, {}, "RuntimeDefault"),
        (
            {"seccompProfile": {"type": "RuntimeDefault"}},
            {"seccompProfile": {"type": "Unconfined"}},
            "Unconfined",
        ),
        (
            {},
            {"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"}},
            "Localhost/a/b.json",
        ),
        ({"seccompProfile": None}, {"seccompProfile": {}}, ""),
    ],
)
def test_the_container_goes_before_its_pod(
    above: dict[str, Any], own: dict[str, Any], told: str
) -> None:
    assert profile_of(above, own) == told


@pytest.mark.parametrize(
    ("asked", "by_default", "told"),
    [
        (ContainerSpec("i"), False, ""),
        (ContainerSpec("i"), True, "RuntimeDefault"),
        (ContainerSpec("i", seccomp="Unconfined"), True, ""),
        (ContainerSpec("i", seccomp="Localhost/p"), True, "Localhost/p"),
        (ContainerSpec("i", seccomp="RuntimeDefault", privileged=True), True, ""),
    ],
)
def test_seccomp_default_is_for_who_asks_for_nothing(
    asked: ContainerSpec, by_default: bool, told: str
) -> None:
    assert SeccompProfiles(by_default=by_default).of(asked) == told


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("Localhost/p.json", ""),
        ("Localhost/a/p..json", ""),
        ("Localhost/", "no localhostProfile"),
        ("Localhost//etc/p.json", "not a relative path"),
        ("Localhost/../p.json", "contains '..'"),
        ("Localhost/a/../../p.json", "contains '..'"),
    ],
)
def test_a_localhost_profile_lies_below_the_root(path: str, fault: str) -> None:
    assert fault in path_fault(path)
    assert bool(fault) == bool(path_fault(path))


def test_the_errno_by_name_goes_before_its_number() -> None:
    made = runtime_filter(PROFILE, AMD64)
    assert made is not None
    assert made["defaultErrnoRet"] == 38
    (one,) = rules(AMD64, {"names": ["bpf"], "errno": "EPERM", "errnoRet": 22})
    assert one["errnoRet"] == 1
    (one,) = rules(AMD64, {"names": ["bpf"], "errnoRet": 22})
    assert one["errnoRet"] == 22
    assert rules(AMD64, {"names": ["bpf"]}) == [{"names": ["bpf"], "action": "SCMP_ACT_ALLOW"}]


@pytest.mark.parametrize(
    ("architecture", "told"),
    [
        ("amd64", ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"]),
        ("arm64", ["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"]),
        ("riscv64", None),
    ],
)
def test_the_architectures_are_those_of_the_machine(
    architecture: str, told: list[str] | None
) -> None:
    made = runtime_filter(PROFILE, SeccompHost(architecture, "6.1"))
    assert made is not None
    assert made.get("architectures") == told


@pytest.mark.parametrize(
    ("entry", "applies"),
    [
        ({"includes": {"caps": ["CAP_CHOWN"]}}, True),
        ({"includes": {"caps": ["CAP_CHOWN", "CAP_SYS_ADMIN"]}}, False),
        ({"excludes": {"caps": ["CAP_SYS_ADMIN"]}}, True),
        ({"excludes": {"caps": ["CAP_SYS_ADMIN", "CAP_KILL"]}}, False),
        ({"includes": {"arches": ["amd64", "x32"]}}, True),
        ({"includes": {"arches": ["arm"]}}, False),
        ({"excludes": {"arches": ["amd64"]}}, False),
        ({"includes": {"minKernel": "4.8"}}, True),
        ({"includes": {"minKernel": "6.1"}}, True),
        ({"includes": {"minKernel": "6.10"}}, False),
        ({"excludes": {"minKernel": "4.8"}}, False),
        ({"includes": {}, "excludes": {}}, True),
    ],
)
def test_conditions_are_decided_here(entry: dict[str, Any], applies: bool) -> None:
    assert bool(rules(AMD64, {"names": ["x"], **entry})) is applies


def test_arguments_stay_and_an_old_name_is_one_of_many() -> None:
    arg = {"index": 0, "value": 8, "valueTwo": 0, "op": "SCMP_CMP_EQ"}
    assert rules(AMD64, {"name": "personality", "args": [arg]}) == [
        {"names": ["personality"], "action": "SCMP_ACT_ALLOW", "args": [arg]}
    ]
    assert runtime_filter({}, AMD64) is None


@pytest.mark.parametrize(
    "document",
    [
        [],
        {**PROFILE, "architectures": ["SCMP_ARCH_X86"]},
        {**PROFILE, "syscalls": [{"name": "a", "names": ["b"], "action": "x"}]},
        {**PROFILE, "syscalls": ["read"]},
        {**PROFILE, "defaultErrno": "EWHAT"},
    ],
)
def test_a_broken_profile_is_refused(document: object) -> None:
    with pytest.raises(ValueError):
        runtime_filter(document, AMD64)


def test_a_localhost_profile_is_taken_as_it_is() -> None:
    document = {"defaultAction": "SCMP_ACT_LOG", "architectures": ["A"], "syscalls": [], "x": 1}
    assert localhost_filter(document) == {
        "defaultAction": "SCMP_ACT_LOG",
        "architectures": ["A"],
        "syscalls": [],
    }
    with pytest.raises(ValueError):
        localhost_filter({"syscalls": []})


DEFAULT = {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}


@pytest.mark.parametrize(
    ("container", "profiles", "asked"),
    [
        (DEFAULT, SeccompProfiles(), "RuntimeDefault"),
        ({}, SeccompProfiles(by_default=True), "RuntimeDefault"),
        (
            {
                "securityContext": {
                    "seccompProfile": {"type": "Localhost", "localhostProfile": "p.json"}
                }
            },
            SeccompProfiles(),
            "Localhost/p.json",
        ),
    ],
)
def test_a_profile_that_cannot_be_loaded_is_refused_with_a_way_on(
    container: dict[str, Any], profiles: SeccompProfiles, asked: str
) -> None:
    document = document_of({"command": None, **container})
    pod = pod_of(document)
    wanted: list[str] = []

    def fault(profile: str) -> str:
        wanted.append(profile)
        return "it is not there"

    spec = read_oci(pod, document, seccomp=profiles, profile_fault=fault)
    (row,) = [one for one in spec.problems if one.severity == "error"]
    assert (wanted, spec.runnable) == ([asked], False)
    assert "it is not there" in row.message
    assert ("containers-common" in row.hint) == (asked == "RuntimeDefault")
    assert "--unconfined" in row.hint
    assert read_oci(pod, document, seccomp=profiles, profile_fault=fault, unconfined=True).runnable
    assert read_oci(pod, document, seccomp=profiles, profile_fault=lambda _: "").runnable


def test_a_localhost_profile_outside_is_wrong_for_every_runtime() -> None:
    local = {"seccompProfile": {"type": "Localhost", "localhostProfile": "../p.json"}}
    document = document_of({"securityContext": local})
    spec = read_oci(pod_of(document), document, unconfined=True, profile_fault=lambda _: "")
    (row,) = [one for one in spec.problems if one.severity == "error"]
    assert row.where.endswith("seccompProfile.localhostProfile")


def test_a_plain_process_has_no_profile_and_says_so() -> None:
    document = document_of(DEFAULT)
    (row,) = [one for one in read(pod_of(document), document).problems if one.severity == "error"]
    assert "--with runc, crun or containerd" in row.hint
    document = document_of({})
    around = PodEnvironment(seccomp_default=True)
    spec = read(pod_of(document), document, around=around)
    assert spec.runnable
    assert [one for one in spec.problems if one.message.startswith("seccompDefault")]
