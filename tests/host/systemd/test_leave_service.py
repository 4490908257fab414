"""Who has to leave the cgroup of a service."""

from __future__ import annotations

import pytest

from qoslet.host.systemd.leave_service import leave_service, left_over

V2 = "0::/system.slice/qoslet.service\n"
HYBRID = "4:memory:/system.slice/x\n1:name=systemd:/system.slice/qoslet.service\n0::/system.slice\n"
USER = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/qoslet.service\n"


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        (V2, V2, True),
        (HYBRID, HYBRID, True),
        (USER, USER, True),
        (V2, "0::/system.slice/qoslet-keeper-7.scope\n", False),
        (V2, "", False),
        ("", "", False),
        ("0::/\n", "0::/\n", False),
        ("0::/user.slice/session-1.scope\n", "0::/user.slice/session-1.scope\n", False),
    ],
)
def test_who_shares_the_cgroup_of_a_service(own: str, other: str, expected: bool) -> None:
    assert left_over(own, other) is expected


def test_a_process_that_is_gone_stays_where_it_is() -> None:
    assert leave_service(2**22 + 1) == ""
