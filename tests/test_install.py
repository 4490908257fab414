"""The wheel that `pipx install .` builds: everything is in it, and it runs where the checkout is not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.paths import REPO


def built(source: Path, folder: Path) -> Path:
    """The wheel of the files in ``source``."""
    program = Path(sys.executable).with_name("hatchling")
    words = [str(program), "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(words, cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = folder.glob("qoslet-*.whl")
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(REPO, tmp_path_factory.mktemp("wheel"))


def test_everything_is_in_the_wheel(wheel: Path) -> None:
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("qoslet/")}
    source = REPO / "src"
    files = {
        path.relative_to(source).as_posix()
        for path in (source / "qoslet").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == files


def test_the_image_has_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """The builder takes no notice of a program that it does not find."""
    text = (REPO / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    for row in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE):
        *names, target = row.split()
        for path in (found for name in names for found in REPO.glob(name)):
            if path.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(path, tmp_path / target, ignore=ignored)
                continue
            folder = tmp_path / target
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, folder / path.name)
    (folder := tmp_path / "wheels").mkdir()
    files = [zipfile.ZipFile(one).namelist() for one in (wheel, built(tmp_path, folder))]
    assert sorted(files[1]) == sorted(files[0])


def test_the_installed_program_runs(wheel: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(tmp_path / "site"), str(wheel)], check=True)
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    where = [sys.executable, "-c", "import qoslet; print(qoslet.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).is_relative_to(tmp_path / "site")
    words = [str(tmp_path / "site" / "bin" / "qoslet"), "plan", str(REPO / "examples")]
    words += ["--node", str(REPO / "docs" / "n1.yaml"), "-o", "files"]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.returncode, "memory.high=124149760" in done.stdout) == (0, True), done.stderr
    listed = [sys.executable, "-I", "-X", "importtime", "-c", "pass"]
    empty = subprocess.run(listed, capture_output=True, text=True, check=True).stderr
    listed = [sys.executable, "-X", "importtime", words[0], "--help"]
    overview = subprocess.run(listed, env=env, capture_output=True, text=True, check=True).stderr
    loaded = imported(overview) - imported(empty)
    assert "qoslet.cli.commands" in loaded
    assert not {"re", "enum", "typing"} & loaded, (
        "the program itself costs as much as a third Python"
    )


def imported(listing: str) -> set[str]:
    """The modules that ``-X importtime`` lists."""
    return {line.rpartition("|")[2].strip() for line in listing.splitlines()}


def pinned(lock: str) -> dict[str, str]:
    """The packages of a lock with their versions; each has hashes."""
    text = (REPO / lock).read_text(encoding="utf-8")
    rows = re.findall(r"^([a-z0-9-]+)==(\S+)[^\n]*\\\n    --hash=sha256:", text, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^[a-z0-9-]+==", text, re.MULTILINE))
    return dict(rows)


@pytest.mark.parametrize("name", ["cri", "cluster"])
def test_an_extra_is_pinned_with_hashes(name: str) -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))
    extra = project["project"]["optional-dependencies"][name]
    found, develop = pinned(f"requirements-{name}.lock"), pinned("requirements-dev.lock")
    wanted = {re.split(r"[<>=;\[ ]", one)[0] for one in extra}
    assert wanted <= found.keys()
    assert pinned("requirements.lock").items() & found.items(), "it is installed beside the others"
    assert found.items() <= develop.items(), "tested as installed"
