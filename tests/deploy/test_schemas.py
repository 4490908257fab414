"""What ``deploy/`` installs, against the schemas that Kubernetes publishes, unknown fields included."""

from __future__ import annotations

from typing import Any

import pytest

from tests.deploy.objects import Objects, chart, kustomized

kubernetes_validate: Any = pytest.importorskip(
    "kubernetes_validate", reason="kubernetes-validate is not installed: make test installs it"
)
RELEASES = ("1.30", "1.33", "1.36")
ALL = ("api-source", "kubelet-before-1.33", "evict", "node-condition", "monitoring")
RIGHTS = {"api": True, "nodesProxy": True, "evict": True, "nodeCondition": True}
CUSTOM = "monitoring.coreos.com/v1"


def checked(objects: Objects, release: str) -> int:
    """How many objects are valid in a release; those of operators have no schema there."""
    count = 0
    for one in objects.values():
        if one["apiVersion"] != CUSTOM:
            kubernetes_validate.validate(one, release, strict=True)
            count += 1
    return count


@pytest.mark.parametrize("release", RELEASES)
def test_everything_is_valid(release: str) -> None:
    assert checked(kustomized(), release) == 7
    assert checked(kustomized(*ALL, "release"), release) > 12
    assert checked(kustomized("nri"), release) == 7
    assert checked(chart(), release) == 7
    assert checked(chart(mode="release"), release) == 6
    assert checked(chart(monitoring=True, rbac=RIGHTS), release) > 12


def test_the_schemas_bite() -> None:
    objects = kustomized()
    spec = objects["DaemonSet", "qoslet"]["spec"]["template"]["spec"]
    spec["hostNetwrk"] = spec.pop("hostNetwork")
    with pytest.raises(Exception, match="hostNetwrk"):
        checked(objects, RELEASES[-1])
