"""The tasks of a sweep: a workload, a configuration and a seed each.

The key of a task is a hash of everything that its row depends on, and of nothing else. It includes
the contents of files but not their paths, so files can be moved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from stowplan import __version__
from stowplan.errors import ConfigError
from stowplan.loader.files import read_file
from stowplan.loader.malformed import Malformed
from stowplan.loader.yaml_text import load_yaml_all

FORMAT: Final = "stowplan/sweep/v1"
_NAMING: Final = (".yaml", ".yml")
#: Larger files are exports of clusters, which refer to no other files.
_NAMING_BYTES: Final = 1 << 20


class Workload(msgspec.Struct, frozen=True, omit_defaults=True):
    """A scenario, trace or recording; paths are absolute."""

    name: str
    kind: Literal["scenario", "trace", "recording"]
    file: str
    #: A file with nodes to use instead of its own.
    nodes: str = ""
    #: The name of a workload in a performance-config.yaml.
    workload: str = "*"
    columns: str = ""
    node_columns: str = ""
    limit: int | None = None
    reschedule: bool = False
    #: SHA-256 of each file that it reads, by path relative to the folder of the first one.
    inputs: dict[str, str] = {}


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
    # Without the paths; the order of the files tells the workload and its nodes apart.
    content["inputs"] = list(workload.inputs.values())
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
        raise ConfigError(f"cannot be read: {problem.strerror}", where=str(file)) from None


def inputs_of(files: list[Path]) -> dict[str, str]:
    """Hashes of the files, and of files that YAML files among them refer to, in a fixed order."""
    folder = files[0].parent
    found: dict[Path, str] = {}
    waiting = list(files)
    while waiting:
        file = waiting.pop(0)
        if not _answers(file.is_file):
            is_folder = _answers(file.is_dir)
            why = "is a folder. Fix: give one of its files" if is_folder else "no such file"
            raise ConfigError(why, where=str(file))
        file = file.resolve()
        if file in found:
            continue
        found[file] = hash_of(file)
        if file.suffix in _NAMING and file.stat().st_size < _NAMING_BYTES:
            waiting += _named_in(file)
    return {_from(folder, file): digest for file, digest in found.items()}


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
                named.append(path)
    return named


def _answers(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except OSError:  # a name that is too long
        return False


def _from(folder: Path, file: Path) -> str:
    try:
        return str(file.relative_to(folder.resolve()))
    except ValueError:
        return str(file)
