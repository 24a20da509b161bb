"""The wheel and the sdist: built so that the same commit gives the same bytes, installed and used.

`make release` and tests call it. The build backend runs in a process of its own; packages that
Stowplan depends on come from the package index, by the hashes of requirements/runtime.txt.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

REPOSITORY: Final = Path(__file__).parents[1]
_BUILD: Final = """\
import sys
from flit_core import buildapi
print(buildapi.build_wheel(sys.argv[1]))
print(buildapi.build_sdist(sys.argv[1]))
"""


class ReleaseError(Exception):
    """An artefact could not be built, or is not what it should be; one line says which and why."""


class Distributions(NamedTuple):
    wheel: Path
    sdist: Path


def build(source: Path, folder: Path, *, epoch: int) -> Distributions:
    """Build both from a source tree into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = run([sys.executable, "-c", _BUILD, folder], cwd=source, SOURCE_DATE_EPOCH=str(epoch))
    wheel, sdist = shown.split()
    return Distributions(folder / wheel, folder / sdist)


def unpack(sdist: Path, folder: Path) -> Path:
    """Return the source tree of an sdist, unpacked into a folder."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return folder / sdist.name.removesuffix(".tar.gz")


def install(distribution: Path, python: str | Path, folder: Path) -> Path:
    """Install into a virtual environment, fresh or without Stowplan; return its programs."""
    is_fresh = not folder.exists()
    if is_fresh:
        run([python, "-m", "venv", "--without-pip", folder])
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    pip += ["--python", folder, "install", "--no-compile", "--no-deps"]
    if is_fresh:
        run([*pip, "--require-hashes", "-r", REPOSITORY / "requirements" / "runtime.txt"])
    run([*pip, distribution])
    return folder / "bin"


def use(programs: Path, version: str, folder: Path) -> None:
    """Run what was installed; ReleaseError if something is missing or does not work."""
    expected: dict[str, Sequence[str | Path]] = {
        f"stowplan, version {version}": [programs / "stowplan", "--version"],
        f"(Stowplan {version})": [programs / "kube-scheduler", "--version"],
        "Usage: kubectl stowplan": [programs / "kubectl-stowplan", "--help"],
        "1 of 1 pods bound": [
            programs / "stowplan",
            "simulate",
            REPOSITORY / "examples" / "scenarios" / "mini_kube_scheduler.yaml",
        ],
        str(programs.parent): [
            programs / "python",
            "-c",
            "import stowplan; print(stowplan.__file__)",
        ],
    }
    for text, command in expected.items():
        shown = run(command, cwd=folder)
        if text not in shown:
            words = " ".join(map(str, command))
            raise ReleaseError(f"{words}: expected {text!r} in what it prints: {shown[:200]!r}")
    share = programs.parent / "share"
    for path in (
        programs / "static-scheduler",
        programs / "kubectl_complete-stowplan",
        share / "man/man1/stowplan.1",
        share / "man/man1/kube-scheduler.1",
        share / "bash-completion/completions/stowplan",
        share / "zsh/site-functions/_stowplan",
        share / "fish/vendor_completions.d/stowplan.fish",
    ):
        if not path.is_file():
            raise ReleaseError(f"{path} was not installed")


def find_python(version: str) -> Path | None:
    """Return an interpreter of a version such as 3.12: of the PATH, else of pyenv."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = sorted(root.glob(f"versions/{version}.*/bin/python{version}"), reverse=True)
    on_path = shutil.which(f"python{version}")
    for each in [*([Path(on_path)] if on_path else []), *candidates]:
        # A shim of pyenv may only say that its version is not selected.
        if subprocess.run([each, "-c", ""], capture_output=True).returncode == 0:
            return each
    return None


def run(command: Sequence[str | Path], *, cwd: Path = REPOSITORY, **variables: str) -> str:
    """Return what a program prints; ReleaseError with its last line if it fails."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=cwd, env=kept | variables, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        last = re.sub(r"^(error|Error): ", "", lines[-1].strip()) if lines else "it printed nothing"
        words = " ".join(map(str, command[:4]))
        raise ReleaseError(f"{words} ... failed with exit code {done.returncode}: {last}")
    return done.stdout
