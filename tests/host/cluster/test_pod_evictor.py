"""A pod evicted over HTTP, whatever the server and the network do; none of it on the caller's thread."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from qoslet.core.node.cluster.eviction_messages import EvictionRequest
from qoslet.core.node.cluster.pod_eviction import EvictionOutcome
from qoslet.errors import CannotDo
from qoslet.host.cluster.client_library import ClusterAccess, is_installed, open_session
from qoslet.host.cluster.pod_evictor import EvictionLimits, PodEvictor
from qoslet.host.cluster.session import Session
from tests.core.node.cluster.eviction_model import EvictionModel, request
from tests.host.cluster.fake_api import FakeApi, fake_api

pytestmark = pytest.mark.skipif(
    not is_installed(), reason="the Kubernetes client is not installed: make test installs it"
)

LIMITS = EvictionLimits(seconds=4.0, request_seconds=1.0, wait_scale=0.05)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    model = EvictionModel()
    for number in range(3):
        model.put(f"web-{number}")
    with fake_api() as served:
        served.evictions = model
        yield served


Evict = Callable[..., EvictionOutcome]


def waited(evictor: PodEvictor, seconds: float = 20.0) -> tuple[EvictionRequest, EvictionOutcome]:
    readable, _, _ = select.select([evictor.descriptor], [], [], seconds)
    assert readable, "it did not end in time"
    found = evictor.result()
    assert found is not None
    assert evictor.result() is None, "told once"
    return found


@pytest.fixture
def evict(api: FakeApi, tmp_path: Path) -> Iterator[Evict]:
    begun: list[PodEvictor] = []

    def run(
        name: str = "web-1",
        uid: str = "",
        limits: EvictionLimits = LIMITS,
        access: ClusterAccess | None = None,
    ) -> EvictionOutcome:
        given = access or ClusterAccess(str(api.kubeconfig(tmp_path)))
        evictor = PodEvictor(lambda: open_session(given), "qoslet", limits)
        begun.append(evictor)
        evictor.begin(request(name, uid))
        return waited(evictor)[1]

    yield run
    for one in begun:
        one.close()


def evictions(api: FakeApi) -> int:
    return sum(path.endswith("/eviction") for path, _ in api.requests)


def model_of(api: FakeApi) -> EvictionModel:
    assert api.evictions is not None
    return api.evictions


def test_an_eviction_takes_six_requests(api: FakeApi, evict: Evict) -> None:
    assert evict() == EvictionOutcome("evicted", "", (), 30)
    assert model_of(api).evicted == ["uid-web-1"]
    names = [path.rpartition("/")[2] for path, _ in api.requests]
    rows = list(zip(api.methods, names, strict=True))
    assert rows == [
        ("GET", "web-1"),
        ("GET", "qoslet-evict-101"),
        ("POST", "leases"),
        ("GET", "pods"),
        ("POST", "eviction"),
        ("POST", "events"),
    ]


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
def test_leases_go_by_the_clock_of_the_server(api: FakeApi, evict: Evict, ahead: float) -> None:
    api.ahead_seconds = ahead
    assert evict().result == "evicted"
    (lease,) = model_of(api).leases.values()
    taken = datetime.fromisoformat(lease["spec"]["renewTime"]).timestamp()
    assert taken == pytest.approx(time.time() + ahead, abs=5)
    lease["spec"]["holderIdentity"] = "n9/uid-web-9"
    model_of(api).end("web-1")
    model_of(api).set_ready("new-1")
    found = evict("web-2", limits=EvictionLimits(seconds=1.0, wait_scale=0.05))
    assert (found.result, "the agent of n9 has the Lease" in found.why) == ("refused", True), (
        "whatever this node's clock shows"
    )


def test_a_budget_that_stays_used_up(api: FakeApi, evict: Evict) -> None:
    model_of(api).budget = 0
    outcome = evict()
    assert outcome.result == "refused"
    assert "429" in outcome.why
    assert outcome.notes == ()
    assert model_of(api).evicted == []
    assert 2 <= evictions(api) < 80


def test_retry_after_is_kept(api: FakeApi, evict: Evict) -> None:
    api.retry_after = "10"
    api.faults += ["", "", "", "", 429]
    limits = EvictionLimits(seconds=30.0, request_seconds=1.0, wait_scale=0.1)
    before = time.monotonic()
    assert evict(limits=limits).result == "evicted"
    assert time.monotonic() - before >= 1.0
    assert evictions(api) == 2


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("fault", [500, 503, 409, "reset", "half", "lost", "silent"])
def test_one_fault_at_any_request(
    api: FakeApi, evict: Evict, number: int, fault: int | str
) -> None:
    if fault == 409 and number in (0, 1, 3):
        pytest.skip("no answer to a GET")
    api.faults += [""] * number + [fault]
    outcome = evict(limits=EvictionLimits(20.0, 1.0, 0.05))
    assert outcome.result == "evicted"
    assert model_of(api).evicted == ["uid-web-1"]
    assert bool(outcome.notes) == (number == 5 and fault != 409), "an Event is sent once"
    assert evictions(api) <= 2


def test_an_answer_that_is_lost_after_the_eviction_is_not_asked_for_again(
    api: FakeApi, evict: Evict
) -> None:
    api.faults += ["", "", "", "", "lost"]
    outcome = evict()
    assert (outcome.result, outcome.why) == ("evicted", "")
    assert evictions(api) == 1


@pytest.mark.parametrize("fault", ["done 404", "done 409", "done 429", "done 500", "done 503"])
def test_an_answer_that_lies_about_what_was_done(api: FakeApi, evict: Evict, fault: str) -> None:
    api.faults += ["", "", "", "", fault]
    assert evict().result == "evicted"
    assert model_of(api).evicted == ["uid-web-1"]
    assert evictions(api) <= 2


@pytest.mark.parametrize("number", range(5))
def test_a_page_of_a_proxy_is_no_answer(api: FakeApi, evict: Evict, number: int) -> None:
    api.faults += [""] * number + ["html"]
    outcome = evict()
    assert model_of(api).evicted == (["uid-web-1"] if number == 4 else [])
    assert outcome.result == ("evicted" if number == 4 else "refused")
    api.faults.clear()
    assert evict().result == "evicted", "what could not be read is tried again later"


def test_a_pod_that_is_gone_and_one_that_is_another(api: FakeApi, evict: Evict) -> None:
    assert evict("none").why == "the pod is gone"
    assert evict(uid="older").why == "another pod has its name by now"
    assert set(api.methods) == {"GET"}


def test_the_server_checks_the_uid_itself(api: FakeApi, evict: Evict) -> None:
    model, known = model_of(api), api.evictions
    assert known is not None
    answer = model.answer

    def replaced(method: str, path: str, query: dict[str, str], body: bytes) -> tuple[int, bytes]:
        if path.endswith("/eviction"):
            model.put("web-1", uid="newer")
        return answer(method, path, query, body)

    model.answer = replaced  # type: ignore[assignment,method-assign]
    assert evict().why == "another pod has its name by now"
    assert model.evicted == []


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4])
def test_a_right_that_lacks_is_named(api: FakeApi, evict: Evict, number: int) -> None:
    api.faults += [*[""] * number, 403] * 3
    outcome = evict()
    assert outcome.result == "refused"
    assert "grant" in outcome.why
    assert model_of(api).evicted == []


def test_a_token_that_expired_is_read_again(api: FakeApi, evict: Evict, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("new\n")
    api.token = "new"
    api.faults += [401, "", 401]
    access = ClusterAccess(str(api.kubeconfig(tmp_path, file)))
    assert evict(access=access).result == "evicted"
    file.write_text("old\n")
    outcome = evict("web-2", access=access)
    assert outcome.result == "refused"
    assert "401" in outcome.why


def test_a_token_that_is_renewed_late_is_waited_for(
    api: FakeApi, evict: Evict, tmp_path: Path
) -> None:
    api.token = "second"
    token = tmp_path / "token"
    token.write_text("first")
    renewal = threading.Timer(0.5, token.write_text, ["second"])
    renewal.start()
    limits = EvictionLimits(seconds=30.0, request_seconds=1.0, wait_scale=0.1)
    outcome = evict(limits=limits, access=ClusterAccess(str(api.kubeconfig(tmp_path, token))))
    renewal.join()
    assert outcome.result == "evicted"


def test_a_server_that_says_nothing_is_not_waited_for_longer(api: FakeApi, evict: Evict) -> None:
    api.faults += ["silent"] * 40
    before = time.monotonic()
    outcome = evict(limits=EvictionLimits(2.0, 1.0, 0.05))
    assert time.monotonic() - before < 12
    assert outcome.result == "refused"
    assert "in time" in outcome.why
    assert model_of(api).evicted == []


def test_an_answer_without_end(api: FakeApi, evict: Evict) -> None:
    api.faults += ["slow"] * 40
    outcome = evict(limits=EvictionLimits(2.0, 1.0, 0.05))
    assert outcome.result == "refused"
    assert "not complete" in outcome.why


def test_without_a_client_or_a_cluster_the_reason_is_told() -> None:
    def none() -> Session:
        raise CannotDo("needs the Python client of Kubernetes")

    evictor = PodEvictor(none, "qoslet", EvictionLimits(0.5, 0.5, 0.1))
    evictor.begin(request("web-1"))
    assert waited(evictor)[1].why == "needs the Python client of Kubernetes"
    evictor.close()
    evictor.close()


def test_what_raises_anything_else_is_told_too() -> None:
    def wrong() -> Session:
        raise KeyError("x")

    evictor = PodEvictor(wrong, "qoslet", LIMITS)
    evictor.begin(request("web-1"))
    assert "KeyError" in waited(evictor)[1].why
    evictor.close()


def test_what_is_stopped_sends_no_more(api: FakeApi, tmp_path: Path) -> None:
    model_of(api).budget = 0
    access = ClusterAccess(str(api.kubeconfig(tmp_path)))
    evictor = PodEvictor(lambda: open_session(access), "qoslet", EvictionLimits(60.0, 1.0, 1.0))
    evictor.begin(request("web-1"))
    with api.lock:
        assert api.lock.wait_for(lambda: evictions(api) > 0, 20)
    evictor.stop()
    assert waited(evictor)[1].result == "refused"
    asked = len(api.requests)
    model_of(api).budget = 1
    time.sleep(0.1)
    assert (len(api.requests), model_of(api).evicted) == (asked, [])
    evictor.close()


def test_neither_the_loop_nor_its_end_waits_for_a_server() -> None:
    reached, released = threading.Event(), threading.Event()

    def blocked() -> Session:
        reached.set()
        released.wait(30)
        raise CannotDo("late")

    evictor = PodEvictor(blocked, "qoslet", LIMITS)
    evictor.begin(request("web-1"))
    assert reached.wait(10)
    assert evictor.is_busy
    assert evictor.result() is None
    evictor.close()
    assert evictor.is_busy, "its thread is left behind"
    released.set()


def test_leases_are_in_the_namespace_of_the_account(tmp_path: Path) -> None:
    access = ClusterAccess(account=str(tmp_path))
    assert access.namespace == "qoslet"
    (tmp_path / "namespace").write_text("tools\n")
    assert access.namespace == "tools"
