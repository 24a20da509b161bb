"""Runs on disk, each in a file of its own as soon as it is over.

`session` writes and reads them, so that a benchmark that was cut goes on where it was; reports read
them. What must stay true: a file is complete or not there; and a result says what it was measured
with, so that one of an older scheduler, another machine or another Kubernetes is never taken for a
new one.

    bench-results/<name>/<test>/<workload>[@backlog][@x0.5]/round-1.stowplan.json
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

import stowplan
from stowplan.errors import ConfigError
from stowplan.lab.bench.figures import Run, WorkloadRuns
from stowplan.lab.controlplane.targets import TARGET_BY_NAME, pinned_version
from stowplan.loader.json_text import load_json

RESULTS: Final = Path("bench-results")
#: Packages that take no part in scheduling.
_BESIDE_THE_POINT: Final = frozenset(
    ("apiserver", "cli", "demo", "judge", "lab", "learn", "present", "sim", "testing", "workloads")
)


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured: a workload under certain conditions."""

    #: As on the command line: `misc`, or the path of a file.
    file: str
    test: str
    name: str
    nodes: int
    #: All that are created, and those of them that are measured.
    pods: int
    measured: int
    mode: str = "stream"
    #: The measured pods are so much fewer than the workload says.
    scale: float = 1.0
    #: Why there is no `raw`, if so.
    without_raw: str = ""
    feature_gates: Mapping[str, bool] = {}

    @property
    def title(self) -> str:
        return f"{self.test}/{self.name}"

    @property
    def folder(self) -> Path:
        suffix = "" if self.mode == "stream" else f"@{self.mode}"
        if self.scale != 1.0:
            suffix += f"@x{self.scale:g}"
        return Path(self.test) / (self.name.replace("/", "-") + suffix)


class About(msgspec.Struct, frozen=True, kw_only=True):
    """The versions and the machine of a measurement."""

    when: str
    command: tuple[str, ...]
    commit: str
    #: Of the scheduler's source, the machine and the versions: equal means comparable.
    fingerprint: str
    kubernetes: str
    python: str
    machine: str
    cpus: int


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    setup: Setup
    about: About
    run: Run


class Results:
    """The results of one name."""

    def __init__(self, name: str, root: Path = RESULTS) -> None:
        self.folder = root / name

    def path(self, setup: Setup, round_number: int, contestant: str) -> Path:
        return self.folder / setup.folder / f"round-{round_number}.{_slug(contestant)}.json"

    def store(self, result: RunResult) -> None:
        path = self.path(result.setup, result.run.round, result.run.contestant)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = msgspec.json.format(msgspec.json.encode(result), indent=1)
        unfinished = path.with_suffix(".part")
        unfinished.write_bytes(content)
        unfinished.replace(path)

    def find(self, setup: Setup, round_number: int, contestant: str) -> RunResult | None:
        path = self.path(setup, round_number, contestant)
        return _read(path) if path.exists() else None

    def profile(self, setup: Setup) -> Path:
        """The path of the digest of Stowplan's profile, which may not exist."""
        return self.folder / setup.folder / "profile.txt"

    def remove(self, result: RunResult) -> None:
        self.path(result.setup, result.run.round, result.run.contestant).unlink()

    def forget(self, setup: Setup, contestants: Iterable[str]) -> None:
        """Delete the stored results of these contestants."""
        for contestant in contestants:
            slug = _slug(contestant)
            for path in (self.folder / setup.folder).glob(f"round-*.{slug}.json"):
                path.unlink()

    def of(self, setup: Setup) -> list[RunResult]:
        return [_read(path) for path in sorted((self.folder / setup.folder).glob("round-*.json"))]

    def measured(self, setup: Setup) -> Measured:
        profile = self.profile(setup)
        return Measured(setup, self.of(setup), profile.read_text() if profile.exists() else "")


def _slug(contestant: str) -> str:
    return contestant.replace(" + ", "-")


def _read(path: Path) -> RunResult:
    try:
        return load_json(path.read_bytes(), RunResult)
    except (OSError, ValueError) as problem:
        raise ConfigError(
            f"is not a result of this benchmark ({problem}); remove it, or use --fresh",
            where=str(path),
        ) from None


class Measured:
    """All results of one setup, with what they were measured with."""

    def __init__(self, setup: Setup, results: Sequence[RunResult], profile: str = "") -> None:
        self.setup = setup
        self.results = results
        #: Where Stowplan's time goes, if that was looked at.
        self.profile = profile
        self.outcome = WorkloadRuns(result.run for result in results)

    @property
    def rounds(self) -> int:
        return len({result.run.round for result in self.results})

    @property
    def mixture(self) -> str:
        """A warning where the results were not measured with the same things."""
        if len({result.about.fingerprint for result in self.results}) < 2:
            return ""
        commits = {result.run.contestant: result.about.commit for result in self.results}
        said = ", ".join(f"{name} at {commit}" for name, commit in sorted(commits.items()))
        return f"not measured with the same version of everything: {said}"


# -- with what ------------------------------------------------------------------------------------


def about(command: Sequence[str]) -> About:
    kubernetes = pinned_version(TARGET_BY_NAME["kube-apiserver"].module)
    machine = f"{os.cpu_count()} cores, {_processor()}, {_memory_gib()} GiB, {platform.system()}"
    # With how it was built: without profiles, as pyenv does, Python is much slower.
    python = " ".join(sys.version.split())
    parts = (_source_digest(), machine, kubernetes, python)
    return About(
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        command=tuple(command),
        commit=_commit(),
        fingerprint=hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12],
        kubernetes=kubernetes,
        python=python,
        machine=machine,
        cpus=os.cpu_count() or 0,
    )


@cache
def _source_digest() -> str:
    """A digest of all source files that take part in scheduling, as of the start."""
    root = Path(stowplan.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if relative.parts[0] not in _BESIDE_THE_POINT:
            digest.update(f"{relative}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def _commit() -> str:
    """The checkout's commit, with a plus if it has changes; "" for an installed package."""
    root = Path(stowplan.__file__).parent
    answers = []
    for command in (["rev-parse", "--short=10", "HEAD"], ["status", "--porcelain", "--", "."]):
        try:
            done = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True)
        except OSError:
            return ""
        if done.returncode != 0:
            return ""
        answers.append(done.stdout.strip())
    return answers[0] + ("+" if answers[1] else "")


def _memory_gib() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
