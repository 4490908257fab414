"""A kubelet tells its release once, and is not waited for again and again."""

from __future__ import annotations

from pathlib import Path

from qoslet.host.kubelet.answers import KubeletAnswer
from qoslet.host.kubelet.kubelet_release import KubeletRelease
from qoslet.host.kubelet.processes import KubeletProcess


class Bench:
    """A clock, and kubelets that answer after ``seconds``."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.time = folder, 0.0
        self.releases = KubeletRelease(lambda: self.time)
        self.asked = 0

    def look(self, release: str | None, seconds: float = 0.0, started: int = 1) -> str | None:
        stat = " ".join(["812 (kubelet) S", *["0"] * 18, str(started)])
        (self.folder / "stat").write_text(stat)
        process = KubeletProcess(812, "kubelet", str(self.folder), ())
        answers = KubeletAnswer()
        if self.releases.begin(process, answers):
            self.asked += 1
            self.time += seconds
            if release is not None:
                answers.release = release
                answers.places["/metrics"] = "http://127.0.0.1:10255/metrics"
            self.releases.end(process, answers)
        assert answers.has("/metrics") == (answers.release is not None)
        return answers.release


def test_a_process_is_asked_until_it_tells(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.look(None) is None
    assert bench.look("v1.36.2") == "v1.36.2"
    assert bench.look(None) == "v1.36.2"
    assert bench.asked == 2
    assert bench.look(None, started=2) is None, "a kubelet that started again may be another"
    assert bench.asked == 3


def test_one_that_takes_long_is_not_asked_again_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.look(None, seconds=10)
    bench.time += 29
    assert bench.look("v1.36.2") is None
    bench.time += 1
    assert bench.look("v1.36.2") == "v1.36.2"
    assert bench.asked == 2
