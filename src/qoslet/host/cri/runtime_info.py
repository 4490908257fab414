"""What a runtime tells of itself: its name and version, its driver of cgroups, the OCI runtime below
it, and whether it can make networks.

Source: KEP-4033 (RuntimeConfig); containerd `Status` with verbose (its `config`); the version text
of runc and crun.
"""

from __future__ import annotations

import re
import subprocess
from typing import Any

import msgspec
from msgspec import Struct

from qoslet.core.cgroup.names import DriverName
from qoslet.host.cri.calls import CallFailed, Calls
from qoslet.host.cri.pb import cri_pb2 as pb

_DRIVERS: dict[int, DriverName] = {pb.SYSTEMD: "systemd", pb.CGROUPFS: "cgroupfs"}
_NUMBERS = re.compile(r"v?(\d+(?:\.\d+){0,3})")
_OCI = re.compile(r"^(runc|crun)(?: version)? v?(\d+(?:\.\d+)*)", re.MULTILINE)
ASK_SECONDS = 10.0


class RuntimeFacts(Struct, frozen=True):
    """``name`` as it calls itself (``containerd``, ``cri-o``), ``api`` the version of the CRI.
    ``driver`` is None where it does not say; ``told`` names what did. ``oci`` is as in
    ``core.versions.runtime`` (``runc-1.1.5``), empty where it cannot be found out. ``network`` tells why
    there is no network for pods, empty where there is one."""

    name: str
    version: str
    api: str
    driver: DriverName | None = None
    told: str = ""
    oci: str = ""
    network: str = ""

    @property
    def runtime(self) -> str:
        """The text that ``core.versions.runtime.runtime_of`` reads."""
        numbers = _NUMBERS.match(self.version)
        own = f"{self.name}-{numbers.group(1)}" if numbers else self.name
        return f"{own}+{self.oci}" if self.oci else own


async def facts_of(calls: Calls) -> RuntimeFacts:
    """Ask a runtime that may have been opened or not. Raises ``CallFailed``, ``BadMessage``."""
    said = await calls.open()
    status = await calls("Status", pb.StatusRequest(verbose=True), pb.StatusResponse, ASK_SECONDS)
    config = _json(status.info.get("config", ""))
    driver, told = await _driver(calls, config)
    return RuntimeFacts(
        name=said.runtime_name or "unknown",
        version=said.runtime_version,
        api=calls.version,
        driver=driver,
        told=told,
        oci=_oci(config),
        network=network_refusal(status),
    )


def network_refusal(status: pb.StatusResponse) -> str:
    """Why pods get no network of their own; empty where they do."""
    for condition in status.status.conditions:
        if condition.type == "NetworkReady" and not condition.status:
            return ": ".join(filter(None, (condition.reason, condition.message))) or "not ready"
    return ""


async def _driver(calls: Calls, config: dict[str, Any]) -> tuple[DriverName | None, str]:
    """The driver, by RuntimeConfig or by the configuration that a runtime shows."""
    try:
        answer = await calls("RuntimeConfig", pb.Empty(), pb.RuntimeConfigResponse, ASK_SECONDS)
    except CallFailed as error:
        if error.code != "UNIMPLEMENTED":
            raise
    else:
        if answer.HasField("linux"):
            return _DRIVERS[answer.linux.cgroup_driver], "RuntimeConfig"
    options = _handler(config).get("options")
    if isinstance(options, dict) and isinstance(options.get("SystemdCgroup"), bool):
        return ("systemd" if options["SystemdCgroup"] else "cgroupfs"), "SystemdCgroup"
    if _handler(config).get("runtimeType") == "io.containerd.runc.v2":
        return "cgroupfs", "the default of io.containerd.runc.v2"
    return None, ""


def _handler(config: dict[str, Any]) -> dict[str, Any]:
    """The default runtime handler in containerd's configuration."""
    section = _mapping(config.get("containerd"))
    handlers = _mapping(section.get("runtimes"))
    return _mapping(handlers.get(section.get("defaultRuntimeName", "runc")))


def _oci(config: dict[str, Any]) -> str:
    """The OCI runtime of the default handler, asked for its version."""
    handler = _handler(config)
    if handler.get("runtimeType") != "io.containerd.runc.v2":
        return ""
    program = _mapping(handler.get("options")).get("BinaryName") or "runc"
    try:
        done = subprocess.run(
            [str(program), "--version"],
            capture_output=True,
            timeout=ASK_SECONDS,
            check=False,
            text=True,
            errors="replace",
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    found = _OCI.search(done.stdout)
    return f"{found.group(1)}-{found.group(2)}" if found else ""


def _json(text: str) -> dict[str, Any]:
    """An object in JSON; empty for anything else."""
    try:
        return _mapping(msgspec.json.decode(text))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
