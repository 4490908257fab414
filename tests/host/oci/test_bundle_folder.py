"""What a runtime's log says of a container that could not be made."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.core.workload.container_spec import OciRuntime
from qoslet.host.oci.bundle_folder import ContainerFiles

RUNC = '{"level":"warning","msg":"so so"}\n{"level":"error","msg":"no nope in\\n$PATH"}\n'
CRUN = '{\n  "msg": "so so",\n  "level": "warning"\n}\n{\n  "msg": "no nope in $PATH",\n  "level": "error"\n}\n'


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (RUNC, "no nope in $PATH"),
        (CRUN, "no nope in $PATH"),
        (CRUN + '{"level":"info","msg":"later"}', "no nope in $PATH"),
        ("panic: {no JSON}\n" + CRUN + '{\n  "msg": "torn', "no nope in $PATH"),
        ('{"level":"error"}', "None"),
        ("[1]\n", ""),
        ('{"a":' * 20_000, ""),
        ("", ""),
    ],
)
def test_the_last_error_of_a_log_is_told(tmp_path: Path, log: str, said: str) -> None:
    place = ContainerFiles(
        str(tmp_path), OciRuntime("crun", "/usr/bin/crun", str(tmp_path)), "u", "app"
    )
    Path(place.bundle).mkdir(parents=True)
    Path(place.log).write_text(log)
    assert place.runtime_error() == said


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ('{"process": {"args": ["/srv/page", "x"]}}', "/srv/page"),
        ('{"process": {"args": []}}', "its program"),
        ("[1]", "its program"),
        ("{", "its program"),
    ],
)
def test_a_program_that_may_not_be_executed_is_named(
    tmp_path: Path, config: str, named: str
) -> None:
    place = ContainerFiles(
        str(tmp_path), OciRuntime("crun", "/usr/bin/crun", str(tmp_path)), "u", "app"
    )
    Path(place.bundle).mkdir(parents=True)
    Path(place.config).write_text(config)
    Path(place.log).write_text('{"level":"error","msg":"open executable: Permission denied"}')
    assert place.runtime_error() == f"{named}: open executable: Permission denied"
