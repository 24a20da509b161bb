"""Finds the files that a task depends on besides those that the sweep names.

These are files that YAML files refer to, and Python files that Python files import. Python is
parsed, not run, so the answer is the same in every process. Imports that code computes, files that
it opens, and installed packages are not found; docs/sweep.md says so. The standard library's
`modulefinder` would follow imports, too, but fails on packages without `__init__.py` (Python 3.13).
"""

from __future__ import annotations

import ast
import sys
import sysconfig
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Any, Final, NamedTuple

from stowplan.loader.files import read_file
from stowplan.loader.malformed import Malformed
from stowplan.loader.yaml_text import load_yaml_all

_YAML: Final = (".yaml", ".yml")
_PYTHON: Final = ".py"
#: Larger files are exports of clusters, which refer to no other files.
_MOST_BYTES: Final = 1 << 20
_MOST_NAME: Final = 255
#: What a Python scenario may assign names of files to.
_SETTINGS: Final = ("config", "plugins")
_LIBRARY: Final = Path(sysconfig.get_path("stdlib")).resolve()
_PACKAGES: Final = frozenset({"site-packages", "dist-packages"})
#: The version of Stowplan is in the key of every task.
_OURS: Final = "stowplan"


class _File(NamedTuple):
    path: Path
    #: Where its imports begin: the folder that is on Python's path while it is loaded.
    root: Path


def named_files(given: Iterable[Path]) -> list[Path]:
    """Files that YAML and Python files refer to, directly or through others; without the given."""
    files = [file.resolve() for file in given]
    found = _follow(_File(file, file.parent) for file in files)
    return [file for file in found if file not in files]


def plugin_files(named: str, folder: Path) -> list[Path]:
    """The code of a loaded plugin: its own file, and the files that this imports.

    The plugin is `file.py:Class`, with a path relative to the folder, or `module:Class`.
    """
    place = named.rpartition(":")[0]
    if place.endswith(_PYTHON):
        file = (folder / place).resolve()
        return _follow((_File(file, file.parent),))
    if not place or _is_ours(place):
        return []
    if found := _module_files(place, (folder, *_search_path())):
        return _follow(_File(file, folder) for file in found)
    loaded = getattr(sys.modules.get(place), "__file__", None)
    if loaded is None:
        return []
    # Installed: this file counts, and those that it imports only if the package is editable.
    file = Path(loaded).resolve()
    levels = place.count(".") + (file.stem == "__init__")
    return _follow((_File(file, file.parents[min(levels, len(file.parents) - 1)]),))


def answers(question: Callable[[], bool]) -> bool:
    """The answer of a method of Path, which is no for a name that is too long."""
    try:
        return question()
    except OSError:
        return False


def _follow(given: Iterable[_File]) -> list[Path]:
    """The given files, and all that they refer to, in a fixed order."""
    search = _search_path()
    waiting = deque(given)
    found = dict.fromkeys(file.path for file in waiting)
    while waiting:
        for file in _named_in(waiting.popleft(), search):
            if file.path not in found:
                found[file.path] = None
                waiting.append(file)
    return list(found)


def _search_path() -> list[Path]:
    """Python's path without installed packages."""
    folders = dict.fromkeys(Path(each).resolve() for each in sys.path)
    return [each for each in folders if each.is_dir() and not _is_installed(each)]


def _is_installed(path: Path) -> bool:
    return path.is_relative_to(_LIBRARY) or not _PACKAGES.isdisjoint(path.parts)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == _OURS


def _named_in(file: _File, search: Sequence[Path]) -> Iterator[_File]:
    path = file.path
    if path.suffix not in (*_YAML, _PYTHON) or _is_installed(path):
        return
    if not answers(lambda: path.stat().st_size < _MOST_BYTES):
        return
    text = read_file(path)
    if path.suffix in _YAML:
        for name in dict.fromkeys(_texts(text)):
            yield from _named_by(name, path.parent, search)
        return
    tree = _parsed(text)
    for module, folder in _imports(tree, path):
        roots = (file.root, *search) if folder is None else (folder,)
        yield from (_File(each, file.root) for each in _module_files(module, roots))
    for name in _settings(tree):
        yield from _named_by(name, path.parent, search)


def _named_by(text: str, folder: Path, search: Sequence[Path]) -> Iterator[_File]:
    """The file that a text may refer to: `nodes.yaml`, `my_file.py:Class`, `module:Class`."""
    if not 0 < len(text) <= _MOST_NAME or "\n" in text:
        return
    place, colon, _ = text.partition(":")
    path = folder / place
    if answers(path.is_file):
        yield _File(path.resolve(), path.resolve().parent)
    elif colon and all(part.isidentifier() for part in place.split(".")):
        yield from (_File(each, folder) for each in _module_files(place, (folder, *search)))


def _texts(text: bytes) -> Iterator[str]:
    """The values of YAML documents that are text."""
    try:
        values: deque[Any] = deque(load_yaml_all(text))
    except Malformed:
        return  # the reader of the workload reports it
    while values:
        value = values.popleft()
        if isinstance(value, dict):
            values.extend(value.values())
        elif isinstance(value, list):
            values.extend(value)
        elif isinstance(value, str):
            yield value


def _parsed(text: bytes) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])  # loading the file reports it


def _imports(tree: ast.Module, path: Path) -> Iterator[tuple[str, Path | None]]:
    """Modules that code imports, and the folder of a relative import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((each.name, None) for each in node.names if not _is_ours(each.name))
        elif isinstance(node, ast.ImportFrom):
            module = f"{node.module}." if node.module else ""
            if node.level > len(path.parents) or (not node.level and _is_ours(module)):
                continue
            folder = path.parents[node.level - 1] if node.level else None
            yield from ((f"{module}{each.name}", folder) for each in node.names)


def _settings(tree: ast.Module) -> Iterator[str]:
    """Texts in a Python scenario's `config` and `plugins`."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        if names.isdisjoint(_SETTINGS):
            continue
        for each in ast.walk(node):
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield each.value


def _module_files(module: str, roots: Iterable[Path]) -> list[Path]:
    """The files of a module and of the packages around it, in the first folder that has it."""
    parts = module.split(".")
    for root in roots:
        found = []
        for number in range(1, len(parts) + 1):
            base = root.joinpath(*parts[:number])
            files = [base.with_name(f"{base.name}{suffix}") for suffix in all_suffixes()]
            found += [file for file in (base / "__init__.py", *files) if answers(file.is_file)]
        if found:
            return [file.resolve() for file in found]
    return []
