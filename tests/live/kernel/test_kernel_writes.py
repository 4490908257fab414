"""What the running kernel makes of each write, against what is said of it."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from qoslet.core.cgroup.accepts import ERRNOS, written
from qoslet.core.cgroup.features import NEWEST_KERNEL, KernelFeatures
from qoslet.core.cgroup.interface_files import cpu_numbers
from qoslet.core.node.host_facts import kernel_version
from tests.live.kernel.kernel_writes import machine, record

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


def test_the_kernel_does_what_is_said(record_property: Callable[[str, object], None]) -> None:
    here = machine()
    ground = KernelFeatures(
        page_size=here.page_size,
        cpus=cpu_numbers(here.cpus),
        mems=cpu_numbers(here.mems),
        kernel=kernel_version(here.kernel) or NEWEST_KERNEL,
    )
    rows, wrong = record(here), []
    for row in rows:
        # a write of no bytes does not reach the file
        said = written(row.file, row.text, row.before, ground) if row.text else row.before
        refused = isinstance(said, tuple)
        wanted = (errno.errorcode[ERRNOS[said[0]]], row.before) if refused else ("", said)
        if wanted != (row.error, row.reads):
            wrong.append((row, said))
    assert not wrong, f"{len(wrong)} of {len(rows)}: {wrong[:20]}"
    record_property("compared", len(rows))
