"""What a user decides about a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from qoslet.core.status.series import MetricsOptions

if TYPE_CHECKING:
    from qoslet.core.node.flags import Flags
    from qoslet.core.pressure.guard_mode import Mode
    from qoslet.core.reconcile.limit_shrink import Shrink

LogFormat = Literal["text", "json", "journal"]
OCI = ("runc", "crun")
CRI = ("containerd", "cri-o")
RUNTIMES = ("process", *OCI, *CRI)


class RunOptions(Struct, kw_only=True):
    """``flags`` are completed once the runtime is known; everything else stays as it was given."""

    paths: list[str]
    """Manifests."""
    nodes: list[str]
    """Node documents."""
    root: str
    flags: Flags
    runs_with: str
    """One of ``RUNTIMES``."""
    expand: bool
    """Run the pods of workloads, such as Deployments, too."""
    allocated: bool
    """Take resources from the status instead of the spec."""
    recursive: bool
    """Read directories recursively."""
    namespace: str | None
    selector: str | None
    """Run the pods of this namespace, and with these labels, only."""
    seconds: float | None
    """How long to run, None until interrupted."""
    interval: float
    """Seconds between two checks while a screen shows them."""
    simulate: bool
    dry_run: bool
    unconfined: bool
    shrink: Shrink
    keep: bool
    guard: Mode | None
    endpoint: str | None
    """The socket of a CRI runtime, None for its usual one."""
    images: tuple[str, ...]
    rootfs: tuple[str, ...]
    storage: str | None
    """For OCI runtimes: layouts, directories by image name, and where they are unpacked."""
    metrics_address: str | None = None
    """Where ``/metrics`` is served over TCP, too."""
    metrics: MetricsOptions = MetricsOptions()
    log_format: LogFormat = "text"
    """How a service logs."""

    @property
    def by_oci(self) -> bool:
        """Whether qoslet calls an OCI runtime."""
        return self.runs_with in OCI

    @property
    def by_cri(self) -> bool:
        """Whether a container runtime makes the containers."""
        return self.runs_with in CRI
