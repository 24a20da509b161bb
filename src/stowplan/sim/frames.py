"""Results as DataFrames. pandas is the extra `stowplan[data]`, imported where it is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from stowplan.errors import ConfigError
from stowplan.present.tables import counted
from stowplan.recording.folder import files_in
from stowplan.sim.results.comparing import figures_of
from stowplan.sim.results.extras import needed
from stowplan.sim.results.files import load, name_of, named
from stowplan.sim.results.pod_table import COLUMNS, TIMES, pod_rows
from stowplan.sim.results.run import SAMPLED, Run
from stowplan.sim.sweep.folder import has_results, read_results, run_file


@dataclass
class Results:
    """Runs, and the rows of sweeps. `run` is the name of a run in every frame."""

    runs: list[Run] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    #: Folders of sweeps that kept no runs.
    without_runs: list[Path] = field(default_factory=list)

    def __repr__(self) -> str:
        frames = ".summary" if self.without_runs else ".summary, .pods, .utilisation"
        return f"Results({counted(len(self.rows), 'run')}: {frames})"

    @cached_property
    def summary(self) -> Any:
        """A row for every run: the figures of docs/compare.md, and of sweeps the parameters."""
        return self._pandas().DataFrame(self.rows)

    @cached_property
    def pods(self) -> Any:
        """A row for every pod of every run; times in seconds since the run began."""
        self._check_runs()
        frame = self._pandas().DataFrame(pod_rows(self.runs), columns=list(COLUMNS))
        return frame.astype(dict.fromkeys(TIMES, float))  # also if every value is missing

    @cached_property
    def utilisation(self) -> Any:
        """A row for every moment of every run: shares of CPU and memory, waiting pods, ..."""
        self._check_runs()
        pandas = self._pandas()
        parts = []
        for run in self.runs:
            columns: dict[str, Any] = {"run": run.name}
            columns |= {name: run.samples[name] for name in SAMPLED if name in run.samples}
            if run.samples:
                parts.append(pandas.DataFrame(columns))
        return pandas.concat(parts, ignore_index=True) if parts else pandas.DataFrame()

    def _check_runs(self) -> None:
        if self.without_runs:
            raise ConfigError(
                "has no runs. Fix: run the sweep again with --keep runs",
                where=str(self.without_runs[0]),
            )

    @staticmethod
    def _pandas() -> Any:
        return needed("pandas", "data", where="stowplan.sim.load")


def _is_sweep(path: Path) -> bool:
    """Whether to read a path as the results of a sweep: a folder that has no recordings."""
    try:
        return path.is_dir() and (has_results(path) or not files_in(path))
    except OSError as problem:
        raise ConfigError(
            f"cannot be read: {problem.strerror}. Fix: give another path", where=str(path)
        ) from None


def load_results(
    paths: str | Path | Iterable[str | Path], *, prices: Mapping[str, float] | None = None
) -> Results:
    """Raises ConfigError. A sweep's folder counts as its rows, and its runs if it kept them.

    A folder of recordings counts as one run.
    """
    Results._pandas()
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    results = Results()
    single: list[Run] = []
    names: list[str] = []
    for path in map(Path, listed):
        if not _is_sweep(path):
            single.append(run := load(path, prices=prices))
            names.append(name_of(path, run))
            continue
        rows = read_results(path)
        results.rows += rows
        files = [run_file(path, row["task"]) for row in rows]
        if all(file.is_file() for file in files):
            results.runs += [load(file) for file in files]
        else:
            results.without_runs.append(path)
    for run in named(single, names):
        results.runs.append(run)
        results.rows.append({"run": run.name, "seconds": run.seconds, **figures_of(run)})
    return results
