"""Runs in files: those that `replay --result` wrote, and recordings, observed as they were."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, zip_longest
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from stowplan.api.objects import Node, Pod
from stowplan.cluster.pod_info import same_footprint
from stowplan.errors import ConfigError
from stowplan.loader.files import read_stream
from stowplan.loader.json_text import UNREADABLE, json_decoder, reason_of
from stowplan.loader.malformed import LARGE
from stowplan.output_file import write_file
from stowplan.recording.entries import EntryType
from stowplan.recording.probe import is_recording, recording_files
from stowplan.recording.reading import MOST_GAPS, read_sessions
from stowplan.replay.ordering import Change, changes
from stowplan.sim.results.observing import RunObserver
from stowplan.sim.results.run import FORMAT, SAMPLED, Gap, Run

#: Maximum number of values in a result. A small gzip file can expand to very many.
_MOST_VALUES: Final = 20_000_000
_MAGIC: Final = b"\x1f\x8b"
#: Sweeps name the files of runs by the keys of their tasks.
_SWEEP_KEY: Final = re.compile(r"[0-9a-f]{32}\.json\.gz")
_decode = json_decoder(Run)


def save(run: Run, path: Path) -> None:
    """Write a run; gzipped JSON if the name ends with .gz."""
    text = msgspec.json.encode(run)
    # No time in the header: equal runs are equal files.
    write_file(path, gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def load(path: str | Path, *, prices: Mapping[str, float] | None = None) -> Run:
    """The run in a file: a result, or what a recording shows. Raises ConfigError."""
    path = Path(path)
    recording_files(path)  # refuses folders of other files
    if is_recording(path) or path.is_dir():
        return observe(path, prices=prices)
    try:
        with path.open("rb") as file:
            packed = file.read(2) == _MAGIC
            file.seek(0)
            if packed:
                with gzip.open(file) as unpacked:
                    text = read_stream(unpacked, str(path), limit=LARGE.size)  # type: ignore[arg-type]  # reads like one
            else:
                text = read_stream(file, str(path), limit=LARGE.size)
    except (EOFError, ValueError, zlib.error, gzip.BadGzipFile) as problem:
        raise ConfigError(
            f"cannot be read: {problem}. Fix: give a complete file", where=str(path)
        ) from None
    except OSError as problem:
        raise ConfigError(
            f"cannot be read: {problem.strerror}. Fix: give a recording, or a file of `--result`",
            where=str(path),
        ) from None
    if text.count(b",") >= _MOST_VALUES:
        raise ConfigError(
            f"has more than {_MOST_VALUES:,} values. Fix: give a shorter run", where=str(path)
        )
    try:
        run = _decode(text)
    except UNREADABLE as problem:
        why = reason_of(problem) if text.strip() else "it is empty"
        raise ConfigError(
            f"is neither a recording nor a result: {why}. Fix: give a file of"
            " `stowplan record`, `replay --result` or `simulate --result`",
            where=str(path),
        ) from None
    if run.run != FORMAT:
        raise ConfigError(f"is of the format {run.run!r:.40}, not {FORMAT}", where=str(path))
    if set(run.samples) - set(SAMPLED):
        raise ConfigError("holds samples that are not known", where=str(path))
    if len({len(values) for values in run.samples.values()}) > 1:
        raise ConfigError(
            "its samples are lists of different lengths. Fix: write the result again",
            where=str(path),
        )
    return run


def name_of(path: Path, run: Run) -> str:
    """What to call the run of a file: the file's name; of a run that a sweep kept, its own."""
    if _SWEEP_KEY.fullmatch(path.name):
        return run.name
    return path.resolve().name if path.name in ("", "..") else path.name


def names_of(paths: Sequence[Path], runs: Sequence[Run]) -> list[str]:
    """As `name_of`. Runs that sweeps kept are named by the parts in which they differ."""
    names = list(map(name_of, paths, runs))
    kept = [index for index, path in enumerate(paths) if _SWEEP_KEY.fullmatch(path.name)]
    parts = [names[index].split(", ") for index in kept]
    if len({len(each) for each in parts}) == 1:  # else they have different parameters
        differs = [len(set(column)) > 1 for column in zip(*parts, strict=True)]
        for index, each in zip(kept, parts, strict=True):
            names[index] = ", ".join(compress(each, differs)) or names[index]
    return names


def named(runs: Sequence[Run], names: Iterable[str]) -> list[Run]:
    """The runs under these names, or under their own, each once."""
    chosen: list[str] = []
    for run, name in zip_longest(runs, names):
        assert run is not None
        name, number = name or run.name, 1
        while (numbered := name if number == 1 else f"{name} ({number})") in chosen:
            number += 1
        chosen.append(numbered)
    return [replace(run, name=name) for run, name in zip(runs, chosen, strict=True)]


def observe(path: Path, *, prices: Mapping[str, float] | None = None) -> Run:
    """What a recording shows: the decisions of the scheduler that served."""
    latest = 0.0
    observer = RunObserver(path.name, lambda: latest, prices)
    seen = _Seen(observer)
    gaps: list[Gap] = []
    for session in read_sessions(path):
        seen.begin()
        for change in changes(session.entries):
            latest = change.at
            if change.type is EntryType.GAP and len(gaps) < MOST_GAPS:
                gaps.append(Gap(change.at, change.note))
            seen.apply(change)
    return replace(observer.finish(), gaps=gaps)


class _Seen:
    """Turns changes of objects into calls of a `RunObserver`."""

    def __init__(self, observer: RunObserver) -> None:
        self._observer = observer
        self._pods: dict[str, Pod] = {}
        #: The session that listed or changed each pod and each node last.
        self._pods_seen: dict[str, int] = {}
        self._nodes_seen: dict[str, int] = {}
        self._session = 0

    def begin(self) -> None:
        """A session begins: with a list of everything."""
        self._session += 1

    def _listed(self) -> None:
        """What the list did not show is gone since the last session."""
        for pod in self._unlisted(self._pods_seen):
            if not self._pods.pop(pod).is_finished:
                self._observer.pod_gone(pod)
        for node in self._unlisted(self._nodes_seen):
            self._observer.node_gone(node)

    def _unlisted(self, seen: dict[str, int]) -> list[str]:
        """Remove and return what this session has not shown."""
        names = sorted(name for name, session in seen.items() if session != self._session)
        for name in names:
            del seen[name]
        return names

    def apply(self, change: Change) -> None:
        if change.type is EntryType.SYNCED:
            self._listed()
        thing = change.thing
        if thing is None:
            return
        if thing.kind == "Node":
            node: Node = thing.struct
            if change.type is EntryType.DELETED:
                self._nodes_seen.pop(node.name, None)
                self._observer.node_gone(node.name)
            else:
                self._nodes_seen[node.name] = self._session
                self._observer.node_seen(node)
        elif thing.kind == "Pod":
            self._pod(change.type, thing.struct)

    def _pod(self, what: EntryType, pod: Pod) -> None:
        known = self._pods.get(pod.key)
        if what is EntryType.DELETED:
            self._pods_seen.pop(pod.key, None)
            if self._pods.pop(pod.key, None) is not None:
                self._observer.pod_gone(pod.key)
            return
        self._pods_seen[pod.key] = self._session
        if known is not None and known.uid != pod.uid:
            self._observer.pod_gone(pod.key)
            known = None
        if pod.is_finished:
            if known is not None and not known.is_finished:
                self._observer.pod_gone(pod.key)
            self._pods[pod.key] = pod
            return
        self._pods[pod.key] = pod
        if known is None:
            self._observer.pod_created(pod)
        elif pod.spec.node_name and not known.spec.node_name:
            self._observer.pod_bound(pod)
        elif not same_footprint(known, pod):
            self._observer.pod_resized(pod)
        if _is_preempted(pod):
            self._observer.pod_preempted(pod.key)


def _is_preempted(pod: Pod) -> bool:
    return any(
        each.type == "DisruptionTarget" and each.reason == "PreemptionByScheduler"
        for each in pod.status.conditions or ()
    )


def read_prices(path: Path) -> dict[str, float]:
    """Prices per hour by instance type, as YAML or JSON: `m5.large: 0.096`."""
    from stowplan.workloads.fields import read_yaml

    prices = read_yaml(path)
    if not isinstance(prices, dict):
        raise ConfigError("is not a table of prices, such as `m5.large: 0.096`", where=str(path))
    found: dict[str, float] = {}
    for name, price in prices.items():
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < 1e9:
            raise ConfigError(f"{name}: {price!r:.40} is not a price per hour", where=str(path))
        found[str(name)] = float(price)
    if not found:
        raise ConfigError("has no prices, such as `m5.large: 0.096`", where=str(path))
    return found
