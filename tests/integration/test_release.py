"""`make release` before it builds: what it refuses, in one line, in a repository of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stowplan import __version__

REPOSITORY = Path(__file__).parents[2]
PARTS = ["pyproject.toml", "CHANGELOG.md", "LICENSE", "README.md", "data", "deploy", "src", "tools"]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with all that is checked, as it is in this checkout."""
    root = tmp_path_factory.mktemp("original")
    for part in PARTS:
        source = REPOSITORY / part
        if source.is_dir():
            shutil.copytree(source, root / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, root)
    (root / ".gitignore").write_text("__pycache__/\n")
    git(root, "init", "--quiet")
    commit(root)
    git(root, "tag", "good")
    return root


@pytest.fixture
def root(original: Path) -> Iterator[Path]:
    yield original
    git(original, "reset", "--quiet", "--hard", "good")
    git(original, "clean", "--quiet", "--force", "-d")
    git(original, "config", "--remove-section", "remote.origin", is_checked=False)


def git(root: Path, *arguments: str, is_checked: bool = True) -> None:
    who = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "gc.auto=0"]
    subprocess.run(["git", *who, *arguments], cwd=root, check=is_checked, capture_output=True)


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=test")


def check(root: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tools.release", "--check"],
        cwd=root, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def replace(file: str, old: str, new: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        path = root / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        commit(root)

    return change


def test_these_sources_can_be_released(root: Path) -> None:
    assert check(root) == (0, "")


def write_untracked(root: Path) -> None:
    (root / "src" / "stowplan" / "forgotten.py").touch()


def add_origin(root: Path) -> None:
    git(root, "remote", "add", "origin", "git@git.example.com:fork/stowplan.git")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            write_untracked,
            "the working tree has changes: src/stowplan/forgotten.py. Fix: commit or stash them",
        ),
        (
            replace("CHANGELOG.md", f"## [{__version__}]", "## [0.0.9]"),
            f"CHANGELOG.md says 0.0.9, pyproject.toml says {__version__}. Fix: make them agree",
        ),
        (
            replace("CHANGELOG.md", "## [", "## "),
            "CHANGELOG.md has no heading such as ## [0.1.0] - 2026-01-31. Fix: add it",
        ),
        (
            replace("deploy/scheduler/base/deployment.yaml", f":{__version__}", ":1.0"),
            "deploy/scheduler/base/deployment.yaml: image says 1.0, pyproject.toml says "
            f"{__version__}. Fix: make them agree",
        ),
        (
            replace("pyproject.toml", f'version = "{__version__}"', 'version = "7.0.0"'),
            f"src/stowplan/__init__.py says {__version__}, pyproject.toml says 7.0.0. Fix: make "
            "them agree",
        ),
        (
            replace("data/share/man/man1/stowplan.1", ".SH NAME", ".SH OLD"),
            "data/share/man/man1/stowplan.1 is out of date. Fix: run `make docs` and commit",
        ),
        (
            add_origin,
            "the remote `origin` is https://git.example.com/fork/stowplan, pyproject.toml names "
            "https://github.com/stowplan/stowplan. Fix: change project.urls in pyproject.toml, or "
            "the remote",
        ),
    ],
)  # fmt: skip
def test_what_it_refuses(root: Path, spoil: Callable[[Path], None], message: str) -> None:
    spoil(root)
    assert check(root) == (1, f"Error: {message}\n")
