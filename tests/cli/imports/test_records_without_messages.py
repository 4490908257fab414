"""Records are read on machines that have no protobuf: ``audit`` and ``top`` look for containers in them."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
sys.modules["google"] = sys.modules["grpc"] = None
import qoslet.app.audit.machine, qoslet.app.recorded, qoslet.app.own_tree, qoslet.cli.node.top
"""


def test_records_need_no_protobuf() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
