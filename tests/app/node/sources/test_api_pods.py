"""The API server as a source: opened when it is read first, closed when another one is used."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from qoslet.app.node.sources.api_pods import ApiReader
from qoslet.core.node.running_kubelet.listed_pods import uids_of
from qoslet.errors import CannotDo
from qoslet.host.cluster.client_library import ClusterAccess, is_installed, open_session
from qoslet.host.cluster.followed_pods import FollowedPods
from tests.core.node.cluster.api_model import OWN, ApiModel
from tests.host.cluster.fake_api import FakeApi, fake_api

pytestmark = pytest.mark.skipif(
    not is_installed(), reason="the Kubernetes client is not installed: make test installs it"
)


def reader(api: FakeApi, folder: Path) -> ApiReader:
    def begin(node: str, access: ClusterAccess) -> FollowedPods:
        return FollowedPods(node, lambda: open_session(access), wait_scale=0.05)

    access = ClusterAccess(str(api.kubeconfig(folder)))
    return ApiReader(access, lambda: OWN, begin=begin)


def test_the_first_list_is_waited_for_where_nothing_is_known(tmp_path: Path) -> None:
    model = ApiModel()
    model.put("a", uid="u1")
    with fake_api(model) as api:
        source = reader(api, tmp_path)
        assert source.descriptors() == ()
        seen = source.read(frozenset())
        assert uids_of(seen.pods) == {"u1"}
        assert (seen.complete, seen.tells_removals) == (True, True)
        assert len(source.descriptors()) == 1
        end = time.monotonic() + 10
        while not source.read(frozenset({"u1"})).is_live:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert source.requests == len(api.requests) == 2, "a list and a watch"
        source.rest()
        assert (source.descriptors(), source.requests) == ((), 2)
        asked = len(api.requests)
        time.sleep(0.1)
        assert len(api.requests) == asked


def test_it_is_not_waited_for_where_pods_are_known(tmp_path: Path) -> None:
    with fake_api(ApiModel()) as api:
        api.faults.append("silent")
        source = reader(api, tmp_path)
        began = time.monotonic()
        with pytest.raises(CannotDo, match="on its way"):
            source.read(frozenset({"u1"}))
        assert time.monotonic() - began < 1
        source.rest()


def test_a_refusal_is_said_at_once(tmp_path: Path) -> None:
    with fake_api(ApiModel()) as api:
        api.faults.append(403)
        source = reader(api, tmp_path)
        with pytest.raises(CannotDo, match="403"):
            source.read(frozenset())
        source.rest()
