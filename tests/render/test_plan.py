"""What ``plan`` draws: golden texts, widths, colour, and names that want to be obeyed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.core.api.pod import Pod
from qoslet.core.node.flags import Flags
from qoslet.core.problem import Problem
from qoslet.core.quantity import parse
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.render.terminal import Terminal, cut, display_width, pad, printable, terminal, wrap
from qoslet.render.text import plan as plan_text
from qoslet.render.text import shell
from qoslet.render.text.columns import COLUMNS
from qoslet.render.text.problems import print_problems
from qoslet.render.units import bandwidth, cores, memory, size
from tests.cli.fixtures import golden, made, run, write


@pytest.mark.parametrize("output", ["tree", "table", "files", "shell"])
def test_golden(tmp_path: Path, output: str) -> None:
    done = run("plan", *write(tmp_path), "-o", output, folder=tmp_path, COLUMNS="80")
    assert done.returncode == 0
    assert bool(done.stderr) == (output != "tree"), "the tree ends with the problem rows"
    golden(f"plan.{output}.txt", done.stdout)


def test_golden_shell_of_cgroupfs(tmp_path: Path) -> None:
    plan = made(tmp_path, flags=Flags(cgroup_driver="cgroupfs"))
    golden("plan.shell.cgroupfs.txt", "\n".join(shell.lines(plan)) + "\n")


def test_golden_in_ascii(tmp_path: Path) -> None:
    plan = made(tmp_path)
    drawn = plan_text.tree(plan, Terminal(80, unicode=False), exact=True)
    assert "\n".join(drawn).isascii()
    golden("plan.tree.ascii.exact.txt", "\n".join(drawn) + "\n")


@pytest.mark.parametrize("width", [40, 60, 79, 80, 100, 120, 200])
@pytest.mark.parametrize("verbose", [False, True])
def test_tree_fits(tmp_path: Path, width: int, verbose: bool) -> None:
    plan = made(tmp_path)
    drawn = plan_text.tree(plan, Terminal(width), verbose=verbose)
    tree = drawn[: drawn.index("", 7)]
    assert max(map(display_width, tree)) <= width


def test_what_has_no_room_is_named(tmp_path: Path) -> None:
    drawn = "\n".join(plan_text.tree(made(tmp_path), Terminal(50)))
    assert "no room for" in drawn


def test_piped_nothing_is_cut_or_coloured(tmp_path: Path) -> None:
    options = write(tmp_path)
    plain = run("plan", *options, folder=tmp_path).stdout
    assert "\x1b" not in plain
    assert "…" not in plain
    assert " oom\n" in plain
    coloured = run("plan", *options, "--color=always", folder=tmp_path).stdout
    assert "\x1b[" in coloured


def test_table_has_always_the_same_columns(tmp_path: Path) -> None:
    head, *rows = plan_text.table(made(tmp_path), Terminal())
    assert len(head.split()) == 5 + len(COLUMNS)
    assert all(len(row.split()) == 5 + len(COLUMNS) for row in rows)


def test_v1_has_shares_where_v2_has_a_weight(tmp_path: Path) -> None:
    options = write(tmp_path)
    v2 = [run("plan", *options, "-o", one, folder=tmp_path).stdout for one in ("tree", "table")]
    node = tmp_path / "node.yaml"
    node.write_text(node.read_text().replace("hierarchy: v2", "hierarchy: v1"))
    v1 = [run("plan", *options, "-o", one, folder=tmp_path).stdout for one in ("tree", "table")]
    for shown, other in ((v1, "weight"), (v2, "shares")):
        names = ["weight", "shares"]
        names.remove(other)
        assert all(names[0] in text.lower() and other not in text.lower() for text in shown)


def test_a_row_of_several_places_names_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [Problem("info", f"f: Pod d/{name}: spec", "ignored: ports", "") for name in "abc"]
    print_problems(rows)
    print_problems(rows[:2])
    print_problems(rows[:1])
    assert capsys.readouterr().err.splitlines() == [
        "qoslet: info: f: Pod d/a: spec (and 2 more places): ignored: ports",
        "qoslet: info: f: Pod d/a: spec (and 1 more place): ignored: ports",
        "qoslet: info: f: Pod d/a: spec: ignored: ports",
    ]
    drawn = plan_text.problems(rows, Terminal(width=100, color=False, unicode=True))
    assert drawn[1] == "i f: Pod d/a: spec (and 2 more places): ignored: ports"


def test_shell_lines_are_a_shell_script(tmp_path: Path) -> None:
    for driver in ("systemd", "cgroupfs"):
        script = "\n".join(shell.lines(made(tmp_path, flags=Flags(cgroup_driver=driver))))
        done = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_shell_of_cgroup_v1_uses_each_mount(tmp_path: Path) -> None:
    write(tmp_path)
    node = (tmp_path / "node.yaml").read_text().replace("hierarchy: v2", "hierarchy: v1")
    (tmp_path / "node.yaml").write_text(
        node.replace("mounts: {}", "mounts: {cpu: '/sys/fs/cgroup/cpu,cpuacct', memory: /mnt/m}")
    )
    arguments = ("-o", "shell", "--feature-gates", "MemoryQoS=false", "--cgroup-driver=cgroupfs")
    done = run("plan", "-f", "pods.yaml", "--node", "node.yaml", *arguments, folder=tmp_path)
    assert "mkdir -p /sys/fs/cgroup/cpu,cpuacct/kubepods\n" in done.stdout
    assert "> /mnt/m/kubepods/memory.limit_in_bytes" in done.stdout
    assert "> /sys/fs/cgroup/pids/kubepods/pids.max" in done.stdout


EVIL = "\x1b[2Jevil\x9b\u202e\n'; rm -rf /"


def evil(plan: Plan) -> Plan:
    """The plan with a name that wants to be obeyed, as no reader lets it through."""

    def renamed(pod: Pod | None) -> Pod | None:
        return None if pod is None else Pod(EVIL, EVIL, pod.uid, EVIL, pod.containers)

    import msgspec

    groups = tuple(
        msgspec.structs.replace(
            group,
            name=group.name + EVIL,
            path=None if group.path is None else group.path + EVIL,
            pod=renamed(group.pod),
        )
        for group in plan.cgroups
    )
    return msgspec.structs.replace(plan, cgroups=groups)


def test_control_characters_are_never_written(tmp_path: Path) -> None:
    plan = evil(made(tmp_path))
    for lines in (
        plan_text.tree(plan, Terminal(80), verbose=True),
        plan_text.table(plan, Terminal()),
        plan_text.files(plan),
        shell.lines(plan),
    ):
        assert all(line.isprintable() for line in lines)


def test_shell_words_are_quoted() -> None:
    assert shell.quoted("max 100000") == "'max 100000'"
    assert shell.quoted("it's") == "'it'\"'\"'s'"
    assert shell.quoted("") == "''"
    assert shell.quoted("a\nb") == "'a\\nb'"
    assert shell.quoted("/sys/fs/cgroup") == "/sys/fs/cgroup"


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (0, "0"),
        (1023, "1023"),
        (1024, "1Ki"),
        (255012864, "243Mi"),
        (128 << 20, "128Mi"),
        (1 << 30, "1Gi"),
        (1184 << 20, "1184Mi"),
        (127506841, "122Mi"),
        (-5 << 20, "-5Mi"),
        (63750144, "60.8Mi"),
        (123456789012345, "112Ti"),
    ],
)
def test_sizes(amount: int, expected: str) -> None:
    assert size(amount) == expected
    assert size(amount, exact=True) == str(amount)


def test_units() -> None:
    assert (cores(500), cores(2000)) == ("500m", "2")
    assert bandwidth("50000", "100000") == "500m"
    assert bandwidth("1000", "300000") == "3.3m"
    assert bandwidth("max", "100000") == bandwidth("-1", "100000") == "max"
    assert bandwidth("50000", "100000", exact=True) == "50000/100000"
    assert memory("max") == memory(str(1 << 62)) == memory("-1") == "max"
    assert memory("268435456") == "256Mi"


def test_words_and_widths() -> None:
    assert printable("a\tb\x1b\u202e\udc80") == "a\\tb\\x1b\\u202e\\udc80"
    assert display_width("日本") == 4
    assert pad("日", 4) == "日  "
    assert cut("abcdefgh", 5, "…") == "ab…gh"
    assert display_width(cut("日本語日本語", 7, "…")) <= 7
    assert wrap("one two three", 20, "  ") == ["  one two three"]
    assert wrap("a" * 50, 20) == ["a" * 50]


class Tty:
    """A stream that says what it is told to say."""

    def __init__(self, tty: bool, encoding: str = "utf-8") -> None:
        self.tty, self.encoding = tty, encoding

    def isatty(self) -> bool:
        return self.tty

    def fileno(self) -> int:
        raise OSError("no file")


@pytest.mark.parametrize(
    ("tty", "environ", "choice", "color"),
    [
        (True, {}, "auto", True),
        (False, {}, "auto", False),
        (True, {"NO_COLOR": "1"}, "auto", False),
        (True, {"NO_COLOR": ""}, "auto", True),
        (True, {"TERM": "dumb"}, "auto", False),
        (True, {}, "never", False),
        (False, {"NO_COLOR": "1"}, "always", True),
    ],
)
def test_colour(tty: bool, environ: dict[str, str], choice: str, color: bool) -> None:
    assert terminal(Tty(tty), environ, choice).color is color  # type: ignore[arg-type]


def test_the_terminal_says_its_width_and_encoding() -> None:
    assert terminal(Tty(True), {"COLUMNS": "100"}).width == 100  # type: ignore[arg-type]
    assert terminal(Tty(True), {}).width == 80  # type: ignore[arg-type]
    assert terminal(Tty(False), {}).width > 1000  # type: ignore[arg-type]
    assert not terminal(Tty(True, "iso8859-1"), {}).unicode  # type: ignore[arg-type]
    assert terminal(None, {}).unicode is False


FLAT = ("--cgroups-per-qos=false", "--enforce-node-allocatable=none")
HUGE = """apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: shop}
spec: {containers: [{name: app, image: x, resources: {requests: {cpu: CPU}}}]}
"""


def big(tmp_path: Path) -> str:
    """Pods of which three request most of 31 CPUs."""
    pods = (("db", "16"), ("web-0", "4"), ("web-1", "4"), ("s", "5"), ("t", "1"), ("u", "1"))
    text = "---\n".join(HUGE.replace("NAME", name).replace("CPU", cpu) for name, cpu in pods)
    (tmp_path / "big.yaml").write_text(text)
    return str(tmp_path / "big.yaml")


@pytest.mark.parametrize(
    "output", ["tree", "table", "json", "yaml", "files", "shell", "oci", "cri"]
)
def test_no_output_fails_without_a_word(tmp_path: Path, output: str) -> None:
    """An error is said beside each form, a warning where the document has no place for it."""
    options = [*write(tmp_path)[2:], "-f", big(tmp_path), "-o", output]
    (tmp_path / "big.yaml").write_text(
        (tmp_path / "big.yaml")
        .read_text()
        .replace("requests: {cpu: 16}", "limits: {cpu: 16, memory: 64Gi}")
    )
    error = ("--qos-reserved", "memory=100%", "--feature-gates", "QOSReserved=true")
    done = run("plan", *options, *error, folder=tmp_path)
    assert done.returncode == 1
    said = done.stdout if output == "tree" else done.stderr
    assert "which the kernel rejects" in said
    assert output == "tree" or "qoslet: error: " in said
    assert ("warning: node n1: the pods request" in done.stderr) == (
        output in ("table", "files", "shell", "oci", "cri")
    )


def test_a_sum_names_the_pods_that_make_most_of_it(tmp_path: Path) -> None:
    done = run("plan", *write(tmp_path)[2:], "-f", big(tmp_path), folder=tmp_path)
    line = next(line for line in done.stdout.splitlines() if "the pods request" in line)
    assert line.endswith("; most by shop/db: 16, shop/web-0 and 1 like it: 8, shop/s: 5, others: 2")


def test_containers_of_two_pods_have_names_of_their_own(tmp_path: Path) -> None:
    done = run(
        "plan", *write(tmp_path)[2:], "-f", big(tmp_path), *FLAT, "-o", "files", folder=tmp_path
    )
    places = [line.partition("=")[0] for line in done.stdout.splitlines()]
    assert len(set(places)) == len(places) > 6
    assert all(place.split("/")[-2].endswith(("-app", "-POD")) for place in places)


def test_the_table_names_the_class_of_qos_cgroups(tmp_path: Path) -> None:
    drawn = plan_text.table(made(tmp_path), Terminal())
    rows = [line.split()[:3] for line in drawn if line.startswith("qos")]
    assert rows == [["qos", "Burstable", "-"], ["qos", "BestEffort", "-"]]


def test_the_node_and_the_tree_have_the_same_units(tmp_path: Path) -> None:
    plan = made(tmp_path)
    node = replace(plan.node, capacity={**plan.node.capacity, "memory": parse("65835000Ki")})
    head = plan_text.header(replace(plan, node=node), Terminal(100))
    assert "62.8Gi" in "".join(head)
    exact = plan_text.header(replace(plan, node=node), Terminal(100), exact=True)
    assert "65835000Ki" in "".join(exact)
