"""The pods of a node followed over HTTP, whatever the server and the network do."""

from __future__ import annotations

import json
import select
import time
import warnings
from collections.abc import Callable, Iterator
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest
import yaml

from qoslet.errors import BadInput, CannotDo
from qoslet.host.cluster.client_library import (
    ClusterAccess,
    LibrarySession,
    is_installed,
    open_session,
)
from qoslet.host.cluster.followed_pods import FollowedPods, WatchLimits
from qoslet.host.cluster.session import ReadLimits
from tests.core.node.cluster.api_model import OTHER, OWN, ApiModel
from tests.host.cluster.fake_api import LOCAL, FakeApi, fake_api
from tests.host.kubelet.fake_node import CERTIFICATES

pytestmark = pytest.mark.skipif(
    not is_installed(), reason="the Kubernetes client is not installed: make test installs it"
)

LISTS = ReadLimits(seconds=0.6, silence_seconds=0.5)
WATCHES = WatchLimits(silence_seconds=1.5)


def until(holds: Callable[[], bool], seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.01)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    model = ApiModel(page=2)
    for number in range(5):
        model.put(f"p{number}")
    model.put("elsewhere", OTHER)
    with fake_api(model) as served:
        yield served


@pytest.fixture
def follow(api: FakeApi, tmp_path: Path) -> Iterator[Callable[..., FollowedPods]]:
    begun: list[FollowedPods] = []

    def begin(access: ClusterAccess | None = None) -> FollowedPods:
        given = access or ClusterAccess(str(api.kubeconfig(tmp_path)))
        made = FollowedPods(
            OWN, lambda: open_session(given), lists=LISTS, watches=WATCHES, wait_scale=0.01
        )
        begun.append(made)
        made.start()
        return made

    yield begin
    for one in begun:
        one.close()


def shown(pods: FollowedPods) -> dict[str, str]:
    text = pods.state().pods
    return {
        one["metadata"]["name"]: f"{one['metadata']['uid']}@{one['metadata']['resourceVersion']}"
        for one in (json.loads(text)["items"] if text else ())
    }


def is_right(pods: FollowedPods, api: FakeApi) -> bool:
    with api.lock:
        return shown(pods) == api.model.of_node()


def test_pods_come_change_and_go(api: FakeApi, follow: Callable[..., FollowedPods]) -> None:
    pods = follow()
    until(lambda: is_right(pods, api))
    until(lambda: any("watch" in query for _, query in api.requests))
    pods.state()
    asked = len(api.requests)
    api.change(lambda model: model.put("new"))
    assert select.select([pods.descriptor], [], [], 5)[0], "it wakes who waits"
    api.change(lambda model: model.remove("p1"))
    api.change(lambda model: model.put("p2", priority=5))
    until(lambda: is_right(pods, api))
    assert len(api.requests) == asked, "changes come on the watch that is open"
    assert {path for path, _ in api.requests} == {"/api/v1/pods"}


@pytest.mark.parametrize(
    "faults",
    [
        ("reset",),
        ("half",),
        ("slow",),
        ("silent",),
        (429, 500, 503),
        ("", "half"),
        ("", 410),
        ("", "", "", "half"),
        ("", "", "", "garbage"),
        ("", "", "", "early", "early"),
        ("", "", "", "reset", "silent", 500),
        ("", "", "", 410),
        ("", "", "", "half", 410, "half", "reset"),
        ("", 410, "", 410, "", "", 410),
        ("html", "", "html"),
        ("", "", "", "html", "html"),
        (302, "", 307),
        ("", "", "", 302),
        ("", "", "", "bookmark"),
    ],
)
def test_faults(
    api: FakeApi, follow: Callable[..., FollowedPods], faults: tuple[int | str, ...]
) -> None:
    api.faults.extend(faults)
    pods = follow()
    seen: list[int] = []

    def watches() -> bool:
        state = pods.state()
        if state.pods is not None:
            seen.append(len(state.uids))
        return not api.faults and state.pods is not None

    deadline = time.monotonic() + 15
    changes = 0
    while not watches():
        assert time.monotonic() < deadline
        changes += 1
        with api.lock:
            api.model.put("p3", priority=changes)
        time.sleep(0.05)
    api.change(lambda model: model.put("last"))
    until(lambda: is_right(pods, api))
    assert min(seen) == 5, "the set never shrank"
    assert {path for path, _ in api.requests} == {"/api/v1/pods"}, "no redirect is followed"
    until(lambda: pods.state().fault == "")


def test_a_watch_that_tells_nothing_is_no_fault_and_nothing_is_missed(
    api: FakeApi, follow: Callable[..., FollowedPods]
) -> None:
    api.faults.extend(["", "", "", *["mute", "", "", ""] * 3])
    pods = follow()
    until(lambda: pods.state().is_open)
    faults = set[str]()

    def knows() -> bool:
        faults.add(pods.state().fault)
        return is_right(pods, api)

    until(knows)
    for name in ("new", "newer"):
        api.change(methodcaller("put", name))
        until(knows)
    assert faults == {""}


def test_an_open_watch_holds_until_it_ends(
    api: FakeApi, follow: Callable[..., FollowedPods]
) -> None:
    pods = follow()
    until(lambda: pods.state().is_open)
    api.faults.extend([500] * 4)
    api.hang_up()
    until(lambda: not pods.state().is_open)
    until(lambda: pods.state().is_open)


def test_a_compacted_history(api: FakeApi, follow: Callable[..., FollowedPods]) -> None:
    pods = follow()
    until(lambda: is_right(pods, api))
    api.faults.append("")

    def forget(model: ApiModel) -> None:
        model.put("new")
        model.remove("p0")
        model.put("other", OTHER)
        model.compact()

    api.change(forget)
    until(lambda: is_right(pods, api))


def test_the_time_that_a_server_asks_for(api: FakeApi, follow: Callable[..., FollowedPods]) -> None:
    api.retry_after = "60"
    api.faults.append(429)
    began = time.monotonic()
    pods = follow()
    until(lambda: is_right(pods, api))
    assert time.monotonic() - began >= 0.6, "a hundredth of it, as the test scales waits"


def test_a_token_that_is_renewed_in_its_file(
    api: FakeApi, follow: Callable[..., FollowedPods], tmp_path: Path
) -> None:
    api.token = "first"
    token = tmp_path / "token"
    token.write_text("first\n")
    pods = follow(ClusterAccess(str(api.kubeconfig(tmp_path, token))))
    until(lambda: is_right(pods, api))
    api.token = "second"
    token.write_text("second\n")
    api.hang_up()
    api.change(lambda model: model.put("new"))
    until(lambda: is_right(pods, api))


def test_a_token_that_is_not_renewed_keeps_what_was_known(
    api: FakeApi, follow: Callable[..., FollowedPods]
) -> None:
    api.token = "first"
    pods = follow()
    until(lambda: is_right(pods, api))
    known = shown(pods)
    api.token = "second"
    api.hang_up()
    until(lambda: "401" in pods.state().fault)
    api.change(lambda model: model.remove("p0"))
    assert shown(pods) == known
    api.token = "first"
    until(lambda: is_right(pods, api))


@pytest.mark.parametrize("authority", [LOCAL, CERTIFICATES / "ca.pem"])
def test_an_account_in_a_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: Path
) -> None:
    model = ApiModel()
    model.put("a")
    (tmp_path / "token").write_text("first")
    (tmp_path / "ca.crt").write_bytes(authority.read_bytes())
    access = ClusterAccess(account=str(tmp_path))
    with fake_api(model, LOCAL) as served:
        served.token = "first"
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(served.port))
        assert access.in_cluster
        pods = FollowedPods(OWN, lambda: open_session(access), lists=LISTS, wait_scale=0.01)
        pods.start()
        if authority == LOCAL:
            until(lambda: is_right(pods, served))
        else:
            until(lambda: "certificate" in pods.state().fault.lower())
            assert served.requests == [], "nothing is sent to who cannot show a certificate"
        pods.close()


@pytest.mark.parametrize("in_pod", [False, True])
def test_a_server_with_an_address_of_ipv6(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_pod: bool
) -> None:
    model = ApiModel()
    model.put("a")
    with fake_api(model, LOCAL, ipv6=True) as served:
        named: dict[str, Any] = {
            "certificate-authority": str(LOCAL),
            "tls-server-name": "127.0.0.1",
        }
        access = ClusterAccess(str(served.kubeconfig(tmp_path, **named)))
        if in_pod:
            (tmp_path / "token").write_text("first")
            (tmp_path / "ca.crt").write_bytes(LOCAL.read_bytes())
            monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "::1")
            monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(served.port))
            monkeypatch.setenv("HOME", str(tmp_path))
            access = ClusterAccess(account=str(tmp_path))
        pods = FollowedPods(OWN, lambda: open_session(access), lists=LISTS, wait_scale=0.01)
        pods.start()
        if in_pod:
            until(lambda: "certificate" in pods.state().fault, 5)
        else:
            until(lambda: is_right(pods, served))
        pods.close()


def test_a_server_that_is_not_verified_on_demand_is_asked_without_a_warning(
    api: FakeApi, follow: Callable[..., FollowedPods], tmp_path: Path
) -> None:
    path = api.kubeconfig(tmp_path)
    document = yaml.safe_load(path.read_text())
    cluster = document["clusters"][0]["cluster"]
    del cluster["certificate-authority"]
    cluster["insecure-skip-tls-verify"] = True
    path.write_text(yaml.safe_dump(document))
    with warnings.catch_warnings(record=True) as told:
        pods = follow(ClusterAccess(str(path)))
        until(lambda: is_right(pods, api))
    assert told == []


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with fake_api() as served:
        path = served.kubeconfig(tmp_path)
    pods = FollowedPods(OWN, lambda: open_session(ClusterAccess(str(path))), wait_scale=0.01)
    pods.start()
    until(lambda: "refused" in pods.state().fault)
    assert "object at 0x" not in pods.state().fault
    assert pods.state().pods is None
    pods.close()


def test_closing_ends_an_open_watch_at_once(
    api: FakeApi, follow: Callable[..., FollowedPods]
) -> None:
    pods = follow()
    until(lambda: pods.state().is_open)
    began = time.monotonic()
    pods.close()
    assert time.monotonic() - began < 0.9, "sooner than it would be waited for"
    pods.close()


def test_an_error_that_nobody_thought_of_is_a_fault_and_not_the_end(tmp_path: Path) -> None:
    sessions: list[int] = []

    def fails() -> LibrarySession:
        sessions.append(1)
        raise ZeroDivisionError("x")

    pods = FollowedPods(OWN, fails, wait_scale=0.001)
    pods.start()
    until(lambda: len(sessions) > 2)
    assert pods.state().fault == "ZeroDivisionError: x"
    pods.close()


def test_closing_does_not_wait_for_a_server_that_says_nothing(
    api: FakeApi, follow: Callable[..., FollowedPods]
) -> None:
    api.faults.extend(["silent"] * 9)
    pods = follow()
    until(lambda: bool(api.requests))
    began = time.monotonic()
    pods.close()
    assert time.monotonic() - began < 1.5


def test_a_context_that_is_not_there(api: FakeApi, tmp_path: Path) -> None:
    path = str(api.kubeconfig(tmp_path))
    with pytest.raises(BadInput, match="two"):
        open_session(ClusterAccess(path, "two"))
    with pytest.raises(BadInput):
        open_session(ClusterAccess(str(tmp_path / "none")))
    (tmp_path / "broken").write_text("a: [")
    with pytest.raises((BadInput, CannotDo)):
        open_session(ClusterAccess(str(tmp_path / "broken")))
