"""The tasks of a sweep: a workload, a configuration and a seed each.

The key of a task is a hash of everything that its results depend on, and of nothing else. It
includes the contents of files but not their paths, so files can be moved. `dependencies` says which
other files they refer to. The files of a folder of recordings also count by name: names give their
order, and notes of gaps quote them.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from stowplan import __version__
from stowplan.errors import ConfigError
from stowplan.recording.probe import recording_files
from stowplan.sim.sweep.dependencies import answers, named_files, plugin_files
from stowplan.sim.traces.layout import layout_names

FORMAT: Final = "stowplan/sweep/v1"
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
    #: Of `columns` and `nodeColumns`; a built-in layout by its name.
    layouts: tuple[str, ...] = ()
    #: Other files that YAML and Python files among these refer to, in a fixed order.
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
    #: Files with layouts, or names of built-in ones.
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
    #: Hashes of their code by name; paths are absolute.
    plugins: dict[str, str]
    prices: dict[str, float]
    #: The folder of the sweep's file, where modules of plugins can be.
    folder: str = ""
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
    folder: str = "",
) -> Task:
    """Create a task with its key. `plugins` maps names to hashes of their code."""
    content = msgspec.structs.asdict(workload)
    for name in ("name", "file", "nodes", "columns", "node_columns"):
        content.pop(name)
    subject = [FORMAT, __version__, content, config, list(plugins.values()), seed, prices]
    subject += [workload.name, configuration, dict(parameters)]  # the row has them
    digest = hashlib.sha256(msgspec.json.encode(subject, order="deterministic")).hexdigest()
    return Task(
        digest[:32],
        workload,
        configuration,
        dict(parameters),
        seed,
        config,
        dict(plugins),
        prices,
        folder,
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


def plugin_hash(named: str, folder: Path) -> str:
    """Hash the class and the code of a loaded plugin. Raises ConfigError."""
    place, _, path = named.rpartition(":")
    subject = [path if place.endswith(".py") else named, *map(hash_of, plugin_files(named, folder))]
    return hashlib.sha256(msgspec.json.encode(subject)).hexdigest()


def inputs_of(kind: Kind, file: Path, nodes: Path | None, layouts: Sequence[str] = ()) -> Inputs:
    """Hash all files of a workload. `layouts` are files or built-in names. Raises ConfigError."""
    files: Sequence[Path] = [file]
    is_folder = kind == "recording" and answers(file.is_dir)
    if is_folder:
        files = recording_files(file)
    given = [*files, *([] if nodes is None else [nodes])]
    for each in given:
        check_file(each)
    return Inputs(
        tuple(map(hash_of, files)),
        tuple(each.name for each in files) if is_folder else (),
        "" if nodes is None else hash_of(nodes),
        tuple(map(_layout_hash, layouts)),
        tuple(map(hash_of, named_files(given))),
    )


def _layout_hash(layout: str) -> str:
    if not layout or layout in layout_names():
        return layout
    check_file(Path(layout))
    return hash_of(Path(layout))


def check_file(file: Path) -> None:
    """Raise ConfigError for what is not a regular file."""
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        raise ConfigError(_MISSING, where=str(file)) from None
    except OSError as problem:  # such as a name that is too long
        raise _unreadable(file, problem) from None
    except ValueError:
        shown = str(file).replace("\0", "\\0")
        raise ConfigError(
            "its name has a null character. Fix: correct the path", where=shown
        ) from None
    if stat.S_ISDIR(mode):
        raise ConfigError("is a folder. Fix: give one of its files", where=str(file))
    if not stat.S_ISREG(mode):
        raise ConfigError("is not a regular file. Fix: give a file", where=str(file))


def _unreadable(file: Path, problem: OSError) -> ConfigError:
    return ConfigError(
        f"cannot be read: {problem.strerror}. Fix: give a file that this account can read",
        where=str(file),
    )
