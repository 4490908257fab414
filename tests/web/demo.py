"""A node made of values, served as ``qoslet web`` serves one: looks are given, not read."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from qoslet.app.web.serve import Listening, listening
from qoslet.app.web.site import NodeSite
from qoslet.core.api.manifest import Options
from qoslet.core.api.pod import Pod
from qoslet.core.audit.finding import AuditReport, Finding
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.plan.plan import plan
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from qoslet.core.status.node_top import top_rows
from qoslet.host.files.manifests import load_text
from qoslet.host.questions.request_server import RequestServer
from qoslet.host.web.answers import answers
from qoslet.host.web.streams import Streams
from tests.core.vectors.fixtures import node_of, quantities

MIB = 1 << 20
LEAK_SECONDS = 120.0
"""After which the fifth pod is killed for memory, and starts again."""
WALL = 1_790_000_000.0
NAMES = (
    "web",
    "cart",
    "search",
    "checkout",
    "cache",
    "queue",
    "report",
    "login",
    "images",
    "stock",
)


def pod(name: str, number: int, namespace: str = "shop") -> dict[str, object]:
    """A pod; its class and sizes go by its number."""
    memory, cpu = 32 + 32 * (number % 5), 50 + 50 * (number % 4)
    kind = number % 10
    if kind == 9:
        resources: dict[str, object] = {}
    elif kind in (3, 6):
        amount = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        resources = {"requests": amount, "limits": amount}
    else:
        resources = {
            "requests": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"},
            "limits": {"memory": f"{2 * memory}Mi", **({"cpu": "500m"} if kind % 2 else {})},
        }
    container = {"name": "app", "image": "x", "resources": resources}
    mesh = {"name": "proxy", "image": "x", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"u{number}"},
        "spec": {"containers": [container, mesh] if number % 3 == 0 else [container]},
        "status": {
            "containerStatuses": [
                {"name": one, "containerID": f"containerd://{number:04x}{one}"}
                for one in ("app", "proxy")
            ]
        },
    }


def node_plan(count: int, more: tuple[dict[str, object], ...] = ()) -> Plan:
    """The plan of a node with ``count`` pods and ``more``."""
    pods = [pod(f"{NAMES[at % len(NAMES)]}-{at}", at) for at in range(count)]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*pods, *more]})
    size = max(4, count // 5)
    memory = size // 2 + 4
    node = node_of(
        "1.36",
        capacity={"cpu": str(size), "memory": f"{memory}Gi"},
        gates={"MemoryQoS": True},
        host={"hierarchy": "v2"},
        kube_reserved=quantities({"cpu": "500m", "memory": "1Gi"}),
        system_reserved=quantities({"cpu": "200m", "memory": "512Mi"}),
    )
    return plan(load_text(text, Options()).pods, replace(node, name="worker-7"))


class Load:
    """What the cgroups of a plan use, look by look, always the same for one seed."""

    def __init__(self, made: Plan, seed: int = 1) -> None:
        self.plan = made
        self.at = 0.0
        self._random = random.Random(seed)
        self._level = {one.name: self._random.random() for one in made.cgroups}
        self._cpu: dict[str, int] = {}
        self._throttled: dict[str, int] = {}
        self.events: dict[str, dict[str, int]] = {}

    def look(self, seconds: float = 2.0) -> Observed:
        """The next observation, ``seconds`` later."""
        self.at += seconds
        found = {
            one.path: self._cgroup(one, seconds)
            for one in self.plan.cgroups
            if one.path is not None and one.level in ("pod", "container")
        }
        return Observed(self.at, found)

    def _cgroup(self, one: Cgroup, seconds: float) -> ObservedCgroup:
        assert one.path is not None
        draw = self._random
        level = min(1.0, max(0.05, self._level[one.name] + draw.uniform(-0.05, 0.05)))
        leaks = "podu5" in one.name
        if leaks:
            level = 0.3 + 0.7 * (self.at % LEAK_SECONDS) / LEAK_SECONDS
        self._level[one.name] = level
        lives = int(self.at // LEAK_SECONDS) if leaks else 0
        planned = {setting.file: setting.applied for setting in one.settings}
        limit = int(planned.get("memory.max", "0").replace("max", "0")) or 96 * MIB
        used = self._cpu.get(one.name, 0) + int(level * 0.3e6 * seconds)
        self._cpu[one.name] = used
        held = level > 0.9 and "cpu.max" in planned
        self._throttled[one.name] = self._throttled.get(one.name, 0) + int(4e5 * held)
        counts = self.events.setdefault(
            one.name, {"low": 0, "high": 0, "max": 0, "oom": 0, "oom_kill": 0}
        )
        waits = 22.0 if level > 0.93 else 0.0
        counts["high"] += 40 if waits else 0
        counts["max"] += 3 if leaks and level > 0.97 else 0
        counts["oom_kill"] = lives
        values = {
            **{
                name: value
                for name, value in planned.items()
                if name.startswith(("memory", "cpu.max"))
            },
            "memory.pressure": f"some avg10={waits:.2f} avg60=0.00 avg300=0.00 total=0\n",
            "memory.events": "".join(f"{name} {count}\n" for name, count in counts.items()),
        }
        return ObservedCgroup(
            one.path,
            7 + (lives if one.level == "container" else 0),
            values,
            usage_usec=used,
            memory=int(level * limit),
            oom_kills=counts["oom_kill"],
            throttled_usec=self._throttled[one.name],
        )


FINDINGS = AuditReport(
    812,
    40,
    (
        Finding(
            verdict="drift",
            name="/kubepods/burstable/podu1",
            path="/kubepods/burstable/podu1",
            message="memory.high is not what the kubelet writes",
            pod=("shop", "cart-1"),
            file="memory.high",
            expected="134217728",
            found="67108864",
            fix="echo 134217728 > /sys/fs/cgroup/kubepods/burstable/podu1/memory.high",
            hint="the kubelet writes it when the pod is resized",
        ),
    ),
    (),
)


class Demo:
    """A site and its load. ``step`` is one look more."""

    def __init__(
        self, count: int, *, interval: float | None = 2.0, more: tuple[dict[str, object], ...] = ()
    ) -> None:
        self.load = Load(node_plan(count, more))
        self.site = NodeSite(interval)
        self._before: Observed | None = None
        self.address = ""

    def step(
        self,
        at: float,
        *,
        wall: float | None = None,
        agent: Mapping[str, object] | None = None,
        ended: Sequence[Pod] = (),
    ) -> None:
        """One look at ``at`` monotonic seconds, told to who watches."""
        now = self.load.look()
        rows = top_rows(self.load.plan, self._before, now)
        seconds = now.at - self._before.at if self._before is not None else 0.0
        self._before = now
        moment = WALL + self.load.at if wall is None else wall
        self.site.take(
            self.load.plan,
            rows,
            at=at,
            wall=moment,
            seconds=seconds,
            report=FINDINGS,
            agent=agent,
            ended=ended,
        )
        if self.site.streams is not None:
            self.site.streams.publish()

    def steps(self, count: int, until: float) -> None:
        """Looks every two seconds, the last at ``until``."""
        for number in range(count):
            self.step(until - 2.0 * (count - 1 - number))


@contextmanager
def served(demo: Demo, listen: str = "127.0.0.1:0") -> Iterator[Listening]:
    """The demo, served."""
    place = listening(listen)
    demo.site.streams = Streams(demo.site.event)
    server = RequestServer(
        place.socket,
        answers(lambda request: place.access.refuses(request) or demo.site.answer(request)),
        user=place.user,
    )
    try:
        yield place
    finally:
        server.close()
        demo.site.streams.close()
        place.forget()
