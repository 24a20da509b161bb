"""The tasks of a sweep: a workload, a configuration and a seed each.

The key of a task is a hash of everything that its results depend on, and of nothing else. It
includes the contents of files but not their paths, so files can be moved. The files of a folder of
recordings also count by name: names give their order, and notes of gaps quote them.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from stowplan import __version__
from stowplan.errors import ConfigError
from stowplan.loader.files import read_file
from stowplan.loader.malformed import Malformed
from stowplan.loader.yaml_text import load_yaml_all
from stowplan.recording.reading import recording_files

FORMAT: Final = "stowplan/sweep/v1"
_NAMING: Final = (".yaml", ".yml")
#: Larger files are exports of clusters, which refer to no other files.
_NAMING_BYTES: Final = 1 << 20
_MISSING: Final = (
    "no such file. Fix: correct the path; it is relative to the folder of the sweep's file"
)


Kind: TypeAlias = Literal["scenario", "trace", "recording"]


class Inputs(msgspec.Struct, frozen=True):
    """SHA-256 of each file that a workload reads."""

    files: tuple[str, ...]
    #: The names of these files in a folder of recordings; empty for a single file.
    names: tuple[str, ...] = ()
    nodes: str = ""
    #: Other files that YAML files among these refer to, in a fixed order.
    others: tuple[str, ...] = ()


class Workload(msgspec.Struct, frozen=True, omit_defaults=True):
    """A scenario, trace or recording; paths are absolute."""

    name: str
    kind: Kind
    #: For a recording, this can be a folder of rotated files.
    file: str
    inputs: Inputs
    #: A file with nodes to use instead of its own.
    nodes: str = ""
    #: The name of a workload in a performance-config.yaml.
    workload: str = "*"
    columns: str = ""
    node_columns: str = ""
    limit: int | None = None
    reschedule: bool = False


class Task(msgspec.Struct, frozen=True):
    """One simulation."""

    key: str
    workload: Workload
    #: The name of the configuration, and the value of each parameter.
    configuration: str
    parameters: dict[str, Any]
    seed: int
    #: None: the scenario's own, or kube-scheduler's defaults.
    config: dict[str, Any] | None
    plugins: tuple[str, ...]
    prices: dict[str, float]
    version: str = __version__

    @property
    def label(self) -> str:
        """The name of the task for people."""
        words = [self.workload.name, self.configuration]
        words += [f"{name}={text_of(value)}" for name, value in self.parameters.items()]
        return ", ".join([*(word for word in words if word), f"seed {self.seed}"])


def make_task(
    workload: Workload,
    configuration: str,
    parameters: Mapping[str, Any],
    seed: int,
    config: dict[str, Any] | None,
    plugins: Mapping[str, str],
    prices: dict[str, float],
) -> Task:
    """Create a task with its key. `plugins` maps names to hashes of their files."""
    content = msgspec.structs.asdict(workload)
    for name in ("name", "file", "nodes"):
        content.pop(name)
    subject = [FORMAT, __version__, content, config, sorted(plugins.values()), seed, prices]
    subject += [workload.name, configuration, dict(parameters)]  # the row has them
    digest = hashlib.sha256(msgspec.json.encode(subject, order="deterministic")).hexdigest()
    return Task(
        digest[:32],
        workload,
        configuration,
        dict(parameters),
        seed,
        config,
        tuple(plugins),
        prices,
    )


def text_of(value: object) -> str:
    """The value of a parameter as text in a table."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def hash_of(file: Path) -> str:
    """The SHA-256 of a file of any size. Raises ConfigError."""
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as problem:
        raise _unreadable(file, problem) from None


def inputs_of(kind: Kind, file: Path, nodes: Path | None) -> Inputs:
    """Hash all files of a workload. Raises ConfigError."""
    files: Sequence[Path] = [file]
    is_folder = kind == "recording" and _answers(file.is_dir)
    if is_folder:
        files = recording_files(file)
    given = [*files, *([] if nodes is None else [nodes])]
    for each in given:
        _check_file(each)
    return Inputs(
        tuple(map(hash_of, files)),
        tuple(each.name for each in files) if is_folder else (),
        "" if nodes is None else hash_of(nodes),
        tuple(map(hash_of, _others(given))),
    )


def _check_file(file: Path) -> None:
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        raise ConfigError(_MISSING, where=str(file)) from None
    except OSError as problem:  # such as a name that is too long
        raise _unreadable(file, problem) from None
    if stat.S_ISDIR(mode):
        raise ConfigError("is a folder. Fix: give one of its files", where=str(file))
    if not stat.S_ISREG(mode):
        raise ConfigError("is not a regular file. Fix: give a file", where=str(file))


def _unreadable(file: Path, problem: OSError) -> ConfigError:
    return ConfigError(
        f"cannot be read: {problem.strerror}. Fix: give a file that this account can read",
        where=str(file),
    )


def _others(given: Sequence[Path]) -> list[Path]:
    """Files that YAML files refer to, directly or through others."""
    known = {file.resolve() for file in given}
    found: list[Path] = []
    waiting = [file.resolve() for file in given]
    while waiting:
        file = waiting.pop(0)
        if file.suffix not in _NAMING or file.stat().st_size >= _NAMING_BYTES:
            continue
        for named in _named_in(file):
            if named not in known:
                known.add(named)
                found.append(named)
                waiting.append(named)
    return found


def _named_in(file: Path) -> list[Path]:
    try:
        documents = load_yaml_all(read_file(file))
    except Malformed:
        return []  # the reader of the workload reports it
    named: list[Path] = []
    values: list[Any] = list(documents)
    while values:
        value = values.pop(0)
        if isinstance(value, dict):
            values += value.values()
        elif isinstance(value, list):
            values += value
        elif isinstance(value, str) and 0 < len(value) < 256 and "\n" not in value:
            # `my_file.py:Class` refers to a plugin.
            path = file.parent / value.partition(":")[0]
            if _answers(path.is_file):
                named.append(path.resolve())
    return named


def _answers(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except OSError:  # a name that is too long
        return False
