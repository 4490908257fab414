"""What a dependency costs: time to import, memory it adds, size on disk. Feeds docs/development/dependencies.md."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from importlib.metadata import distribution

from bench.figures import paired

DEPENDENCIES = {
    "dbus-fast": "dbus_fast.aio",
    "msgspec": "msgspec",
    "prometheus-client": "prometheus_client",
    "PyYAML": "yaml",
}
ROUNDS = 25


PEAK = "print([line.split()[1] for line in open('/proc/self/status') if line[:5] == 'VmHWM'][0])"


def busy(code: str) -> float:
    """Milliseconds of CPU of a Python that runs ``code``; unlike wall time, others hardly matter."""
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", code], os.environ)
    _, _, usage = os.wait4(pid, 0)
    return (usage.ru_utime + usage.ru_stime) * 1000


def peak(code: str) -> float:
    """Peak MB of a Python that runs ``code``."""
    command = [sys.executable, "-c", f"{code}\n{PEAK}"]
    return int(subprocess.run(command, capture_output=True, check=True).stdout) / 1024


def main() -> None:
    """Print a table."""
    print(
        "| package | version | import, ms of CPU | memory, MB | on disk, MB |\n|---|---|---|---|---|"
    )
    for name, module in DEPENDENCIES.items():
        with_it, without = paired(partial(busy, f"import {module}"), partial(busy, "pass"), ROUNDS)
        memory, floor = paired(partial(peak, f"import {module}"), partial(peak, "pass"), 5)
        package = distribution(name)
        size = sum(
            os.path.getsize(path)
            for path in (str(package.locate_file(file)) for file in package.files or [])
            if os.path.exists(path)
        )
        print(
            f"| {name} | {package.version} | {with_it - without:.1f} | {memory - floor:.1f}"
            f" | {size / 1e6:.1f} |"
        )


if __name__ == "__main__":
    main()
