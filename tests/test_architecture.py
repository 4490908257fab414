"""The picture of docs/explanation/architecture.md, held true: import directions, purity, sizes, words."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.run import BENCHMARKS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "qoslet"
MODULES = sorted(SOURCE.rglob("*.py"))

LONGEST_MODULE = 400
LONGEST_FUNCTION = 50
MOST_MODULES = 16
THIRD_PARTY_OF_CORE = {"msgspec"}
IMPURE_CALLS = {"open", "print", "input", "eval", "exec", "compile", "__import__", "breakpoint"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    env = {**os.environ, "PYTHONPATH": str(root / "src"), "NO_COLOR": "1"}
    command = [str(program), "--no-cache"]
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("core/api/pod.py", "import os", "The core is pure"),
        ("core/api/pod.py", "from time import monotonic", "The core is pure"),
        ("core/api/pod.py", "import qoslet.agent.ports", "Imports point one way"),
        ("core/api/pod.py", "import qoslet.core.plan.plan", "Rooms of the core"),
        ("core/api/pod.py", "import qoslet.core.api.pod_decoder", "No two modules need each other"),
        ("agent/state/pod_worker.py", "import qoslet.agent.pods.resize", "Rooms of the agent"),
        ("host/linux/procfs.py", "import qoslet.host.machine.probe", "Rooms of the host"),
        ("render/terminal.py", "import qoslet.render.metrics", "Rooms of render"),
        ("errors.py", "import qoslet.core.api.pod", "Imports point one way"),
        ("agent/ports.py", "import qoslet.host.machine.probe", "Imports point one way"),
        ("agent/ports.py", "import qoslet.cli.main", "Imports point one way"),
        ("host/__init__.py", "import qoslet.agent.ports", "Imports point one way"),
        ("sim/__init__.py", "import qoslet.host.machine.probe", "The simulated kernel needs no"),
        ("render/units.py", "import qoslet.host.machine.probe", "Only app knows host"),
        ("cli/main.py", "import qoslet.host.machine.probe", "Only app knows host"),
        ("cli/main.py", "import qoslet.agent.loop", "The command line does not know"),
    ],
)
def test_wrong_arrow_breaks_a_contract(
    tmp_path: Path, module: str, line: str, contract: str
) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    changed = tmp_path / "src/qoslet" / module
    changed.write_text(f"{changed.read_text()}\n{line}\n")
    done = lint_imports(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(rf"^{contract}.* BROKEN\b", done.stdout, re.MULTILINE), done.stdout


def test_core_imports_no_third_party() -> None:
    wrong = [
        f"{short(path)}: {name}"
        for path in MODULES
        if path.is_relative_to(SOURCE / "core")
        for name in imported(tree_of(path))
        if name.split(".")[0] not in sys.stdlib_module_names | THIRD_PARTY_OF_CORE | {"qoslet"}
    ]
    assert not wrong


def impure_calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in IMPURE_CALLS:
            yield node.lineno, node.id


def test_core_neither_reads_nor_prints() -> None:
    wrong = [
        f"{short(path)}:{line}: {name}"
        for path in MODULES
        if path.is_relative_to(SOURCE / "core")
        for line, name in impure_calls(tree_of(path))
    ]
    assert not wrong


@pytest.mark.parametrize("text", ["open('x')", "print(1)", "f = input", "eval('1')", "exec('')"])
def test_the_check_for_impure_calls_bites(text: str) -> None:
    assert list(impure_calls(ast.parse(text)))


def section(title: str) -> str:
    """The text below a heading of the page."""
    page = (ROOT / "docs/explanation/architecture.md").read_text()
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def defined(tree: ast.Module) -> Iterator[str]:
    """Names that a module defines at its top."""
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (one.id for one in targets if isinstance(one, ast.Name))


def test_what_the_page_says_to_look_at_is_there() -> None:
    rows = re.findall(r"\| `(\w+)` \| `([\w/]+\.py)` \|$", section("Where is it?"), re.MULTILINE)
    assert len(rows) == section("Where is it?").strip().count("\n") - 1
    assert not [row for row in rows if row[0] not in defined(tree_of(SOURCE / row[1]))]


def test_the_page_has_the_rooms_of_the_contracts() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    rooms = {
        one["containers"][0].rpartition(".")[2]: " ".join(one["layers"]).replace(" | ", " ")
        for one in contracts
        if "containers" in one
    }
    page = section("Directions")
    told = {
        name: re.sub(r" \| |[()]", " ", layers).split()
        for name, layers in re.findall(r"^(\w+) +([\w(][^>\n]*)$", page, re.MULTILINE)
        if name in rooms
    }
    assert told == {name: layers.split() for name, layers in rooms.items()}


@pytest.mark.parametrize("folder", ["src", "tests", "docs", "bench"])
def test_modules_are_short(folder: str) -> None:
    modules = (ROOT / folder).rglob("*.py")
    sizes = {short(path): len(path.read_text().splitlines()) for path in modules}
    assert sizes
    assert not {path: size for path, size in sizes.items() if size > LONGEST_MODULE}


def crowded(top: Path) -> dict[str, int]:
    """Folders below ``top`` that hold more modules than a reader overlooks."""
    modules = [path for path in top.rglob("*.py") if path.name != "__init__.py"]
    sizes = Counter(str(path.parent.relative_to(top)) for path in modules)
    return {folder: size for folder, size in sizes.items() if size > MOST_MODULES}


@pytest.mark.parametrize("folder", ["src", "tests", "bench"])
def test_no_folder_is_crowded(folder: str) -> None:
    assert not crowded(ROOT / folder)


def test_the_check_for_crowded_folders_bites(tmp_path: Path) -> None:
    for number in range(MOST_MODULES):
        (tmp_path / f"module{number}.py").touch()
    (tmp_path / "__init__.py").touch()
    assert not crowded(tmp_path)
    (tmp_path / "one_more.py").touch()
    assert crowded(tmp_path) == {".": MOST_MODULES + 1}


def test_every_benchmark_is_there() -> None:
    assert BENCHMARKS
    assert not [name for name in BENCHMARKS if not (ROOT / f"{name.replace('.', '/')}.py").exists()]


def functions() -> Iterator[tuple[Path, Function]]:
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, Function):
                yield path, node


def test_functions_are_short() -> None:
    sizes = {
        f"{short(path)}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path, node in functions()
    }
    assert not {name: size for name, size in sizes.items() if size > LONGEST_FUNCTION}


def undocumented(body: list[ast.stmt], where: str) -> Iterator[str]:
    for node in body:
        if not isinstance(node, Function | ast.ClassDef) or node.name.startswith("_"):
            continue
        if ast.get_docstring(node) is None:
            yield f"{where}:{node.lineno} {node.name}"
        if isinstance(node, ast.ClassDef):
            yield from undocumented(node.body, where)


def test_public_names_state_their_contract() -> None:
    trees = {short(path): tree_of(path) for path in MODULES}
    assert not [where for where, tree in trees.items() if ast.get_docstring(tree) is None]
    assert not [name for where, tree in trees.items() for name in undocumented(tree.body, where)]


def repository() -> Iterator[tuple[str, str]]:
    """Every text file under version control, or of the source tree where there is no git."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        listed = [
            short(path)
            for top in ("src", "tests", "docs", "bench", "examples", "changes")
            for path in (ROOT / top).rglob("*")
        ]
    for name in filter(None, listed):
        path = ROOT / name
        if path.is_file() and path.suffix not in (".pyc", ".png") and path.name != "LICENSE":
            yield name, path.read_text(encoding="utf-8", errors="replace")


MACHINE_PLACES = re.compile(
    "|".join(
        (
            r"\.\./" + "shared",
            r"(?<![\w.])/work" + "/",
            r"/ro" + r"ot/\.",
            r"/ho" + r"me/\w+/(?!\.local)",
            r"py" + r"pi\.org",
            r"python" + r"hosted\.",
            r"https?://[^\s/]*(?:dev" + r"pi|arti" + r"factory|nex" + r"us)",
            r"--(?:extra-)?index" + r"-url",
        )
    )
)


def test_nothing_points_at_one_machine() -> None:
    wrong = [
        f"{name}: {match.group()}"
        for name, text in repository()
        for match in MACHINE_PLACES.finditer(text)
    ]
    assert not wrong


UNFINISHED = re.compile(
    r"\b(?:TODO|FIXME|XXX|HACK|assistant)s?\b|\b(?:this|next|last|previous|earlier) session\b",
)


def test_no_word_of_unfinished_work() -> None:
    wrong = [
        f"{name}:{number}: {line.strip()}"
        for name, text in repository()
        if name.startswith(("src/", "docs/", "README", "bench/"))
        for number, line in enumerate(text.splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert not wrong
