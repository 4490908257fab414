"""The records and labels of pods of an earlier version, read by this one."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest

from qoslet.core.api.manifest import Options
from qoslet.core.reconcile.resize import _Memo
from qoslet.core.workload.env import PodEnvironment
from qoslet.core.workload.lifecycle import Ending
from qoslet.core.workload.oci.image_spec import read_images
from qoslet.core.workload.oci.oci_spec import read_oci
from qoslet.core.workload.pod_reader import read
from qoslet.core.workload.process_spec import MemoryVolume, PodSpec, VolumeMount
from qoslet.core.workload.security.context import Credentials, ProcessRights
from qoslet.host.containers.records import ContainerTimes, MainProcess, ProcessRecords, RecordFolder
from qoslet.host.cri import requests
from qoslet.host.cri.pod_record import CriPod, CriPodRecord
from qoslet.host.files import manifests
from qoslet.host.oci.bundle_folder import ContainerFiles
from tests.old_state import BOOT, DATA, Tell, same_again


def test_records_of_processes_are_read(record_property: Tell) -> None:
    found, bad = ProcessRecords(str(DATA / "process/keeper"), BOOT).load()
    assert bad == []
    pods = {one.spec.key: one for one in found}
    assert sorted(pods) == ["shop/hungry", "shop/once", "shop/own", "shop/slow", "shop/web"]
    compared = 0
    for one in found:
        text = (DATA / f"process/keeper/{one.spec.uid}/pod.json").read_bytes()
        compared += same_again(text, one)
    assert pods["shop/own"].processes == {"app": MainProcess(24292, 86174, 0)}
    assert pods["shop/slow"].ending == Ending(868.207695508, 300.0)
    assert pods["shop/slow"].lives["app"].signalled_at == 868.207772923
    hungry = pods["shop/hungry"].lives["app"]
    assert (hungry.phase, hungry.exit_code, hungry.oom_killed) == ("ended", 137, True)
    assert (hungry.reason, hungry.delay) == ("OOMKilled", 10.0)
    assert pods["shop/once"].lives["app"].exit_code == 3
    assert pods["shop/hungry"].created == 0.0
    web = pods["shop/web"]
    assert [one.role for one in web.spec.launches] == ["init", "sidecar", "regular"]
    app = web.spec.launches[2]
    assert app.identity == Credentials(1234, 2345, (4567, 3456), frozenset({10}), True)
    assert dict(app.env)["LIMIT"] == "67108864"
    at = "/run/qoslet/qoslet-test-state-process/volumes/web-uid/cache"
    assert app.mounts == (
        VolumeMount("cache", "/var/cache/web", source=at, sub_path="a"),
        VolumeMount("cache", "/srv/ro", read_only=True, source=at),
    )
    assert web.spec.volumes == (MemoryVolume("cache", 8388608, 3456),)
    assert web.spec.resize_restarts == (("app", "memory"),)
    assert web.lives["app"].restarts == 1
    assert web.times["first"] == ContainerTimes(1795347989.8324642, 1795347989.8356147)
    assert compared > 300
    record_property("compared", compared)


def test_the_record_of_an_oci_runtimes_pod_is_read(record_property: Tell) -> None:
    found, bad = ProcessRecords(str(DATA / "runc/keeper"), BOOT).load()
    assert (len(found), bad) == (1, [])
    (one,) = found
    compared = same_again((DATA / "runc/keeper/web-uid/pod.json").read_bytes(), one)
    assert one.spec.bundles is not None
    engine = one.spec.bundles.engine
    assert (engine.name, engine.program) == ("runc", "/usr/sbin/runc")
    assert engine.storage == "/tmp/qoslet-state/storage"
    block = one.spec.bundles.blocks["app"]
    assert block.path == "/qoslet-test-state-runc/kubepods/burstable/podweb-uid/web-uid-app"
    assert block.resources["memory"]["limit"] == 67108864
    contained = one.spec.launches[1].contained
    assert contained is not None
    assert (contained.image, contained.pull, contained.read_only_root) == (
        "busybox:1",
        "Never",
        True,
    )
    assert one.spec.sandbox is not None
    assert one.spec.sandbox.hostname == "shop-web"
    assert compared > 100
    record_property("compared", compared)


def test_the_record_of_a_cri_runtimes_pod_is_read(record_property: Tell) -> None:
    folder = DATA / "containerd/cri"
    found, bad = RecordFolder(str(folder), BOOT, CriPodRecord).load()
    assert (len(found), bad) == (1, [])
    (one,) = found
    compared = same_again((folder / "web-uid/pod.json").read_bytes(), one)
    assert one.sandbox.startswith("5dab2a69fbe2")
    assert (one.attempt, one.cleared) == (1, False)
    assert one.pids == {"side": 26730, "app": 26805}
    assert one.ids["app"].startswith("016dddd059ea")
    assert one.applied["app"]["cpu_quota"] == 50000
    assert one.spec.messages is not None
    assert one.spec.messages.parent == "/qoslet-test-state-cri/kubepods/burstable/podweb-uid"
    pod = CriPod.of(one)
    assert pod.record(BOOT) == one
    assert pod.held().top_cgroups == (one.spec.messages.parent,)
    assert compared > 100
    record_property("compared", compared)


def test_a_runtimes_objects_have_our_labels(record_property: Tell) -> None:
    told = json.loads((DATA / "containerd/objects.json").read_bytes())
    (box,) = told["sandboxes"]
    note = box["annotations"]
    spec = msgspec.json.decode(requests.spec_text(note), type=PodSpec)
    (kept,) = RecordFolder(str(DATA / "containerd/cri"), BOOT, CriPodRecord).load()[0]
    root = "/qoslet-test-state-cri"
    assert requests.digest_text(note) == kept.digest
    made = requests.sandbox_config(kept.spec, kept.digest, root, "/logs", 0, True)
    assert dict(made.labels) == {**box["labels"], requests.ROOT: root}
    assert requests.spec_text(made.annotations)
    assert requests.digest_text(made.annotations) == kept.digest
    compared = same_again(requests.spec_text(note).encode(), spec)
    for one in told["containers"]:
        launch = next(launch for launch in spec.launches if launch.name == one["metadata"]["name"])
        again = requests.container_config(kept.spec, launch, "image", root, 0, True)
        assert dict(again.labels) == {**one["labels"], requests.ROOT: root}
        compared += len(one["labels"])
    assert len(told["containers"]) == 3
    record_property("compared", compared)


READERS: dict[str, Callable[..., PodSpec]] = {
    "process": lambda pod, document, around: read(
        pod, document, around=around, powers=ProcessRights(0, 0, True), unconfined=True
    ),
    "runc": lambda pod, document, around: read_oci(pod, document, around=around, unconfined=True),
    "containerd": lambda pod, document, around: read_images(pod, document, around=around),
}


@pytest.mark.parametrize(("runtime", "count"), [("process", 5), ("runc", 1), ("containerd", 1)])
def test_a_manifest_of_then_is_the_same_pod_now(runtime: str, count: int) -> None:
    """A pod with another digest would be ended and started anew."""
    folder = DATA / runtime / ("cri" if runtime == "containerd" else "keeper")
    kept = {
        one["spec"]["uid"]: one
        for one in (json.loads(path.read_bytes()) for path in folder.glob("*/pod.json"))
    }
    loaded = manifests.load_text((DATA / runtime / "pods.json").read_text(), Options(keep_raw=True))
    assert len(loaded.pods) == len(kept) == count
    for pod in loaded.pods:
        spec = READERS[runtime](pod, loaded.raw[pod.uid], PodEnvironment())
        own = msgspec.json.decode(json.dumps(kept[pod.uid]["spec"]), type=PodSpec)
        assert spec.digest() == kept[pod.uid]["digest"], pod.uid
        assert own.digest() == kept[pod.uid]["digest"], pod.uid
        msgspec.json.decode(own.memo, type=_Memo)


def test_a_bundle_of_then_is_found_where_it_is() -> None:
    (kept,) = ProcessRecords(str(DATA / "runc/keeper"), BOOT).load()[0]
    assert kept.spec.bundles is not None
    folder = "/run/qoslet/qoslet-test-state-runc"
    place = ContainerFiles(folder, kept.spec.bundles.engine, "web-uid", "app")
    there = {
        f"{folder}/{line[2:]}"
        for line in (DATA / "runc/files.txt").read_text().splitlines()
        if line.startswith("./oci/")
    }
    assert {place.config, place.pid, place.log, place.rootfs, place.lock, place.pod} <= there
    assert f"{place.state}/{place.id}" in there
    assert place.written == (
        "/tmp/qoslet-state/storage/containers/qoslet-test-state-runc/web-uid/app"
    )
