"""Plugin classes that users name on the command line, in a scenario or to the testing kit.

`NodeNumber` names a known plugin, `package.module:Class` and `my_file.py:Class` one of the user's
own. What must stay true: a mistake in a user's file is a ConfigError in one line, with the file and
the line of the mistake; a traceback would show our machinery and hide it. Loading a file that calls
`stowplan.run(...)` starts no scheduler.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from stowplan.errors import ConfigError, StowplanError
from stowplan.framework.plugin import Plugin

if TYPE_CHECKING:
    from stowplan.framework.registry import Registry

_OURS = str(Path(__file__).parents[1])
_MOST_SHOWN = 10
#: Names of modules that are files of users. They include the file's path, so they are unique.
_PREFIX = "stowplan_user_"
#: The folder from which a user's file imported a module, by the module's name.
_neighbours: dict[str, str] = {}


def find_plugin(named: object, registry: Registry, *, folder: Path, where: str) -> type[Plugin]:
    """Return the plugin class of a name, or the class itself; `folder` is where files are."""
    if not isinstance(named, str):
        return check_class(named, where=where)
    if ":" not in named:
        if named.endswith(".py"):
            classes = _classes(load_module(folder / named))
            first = classes.partition(",")[0]
            fix = f". Fix: write {named}:{first}" if " " not in first else ""
            raise ConfigError(f"{named} has {classes}{fix}", where=where)
        if named not in registry.names:
            known = ", ".join(sorted(registry.names))
            raise ConfigError(
                f"there is no plugin `{named}`; write module:Class for one of your own, or one of"
                f" {known}",
                where=where,
            )
        return registry.get(named)
    place, _, path = named.rpartition(":")
    if not place or not path:
        raise ConfigError(
            f"`{named}` names no plugin; write module:Class or path/to/file.py:Class", where=where
        )
    if place.endswith(".py"):
        module = load_module(folder / place)
    else:
        module = _imported(place, folder, where)
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise ConfigError(f"there is no {path} in {place}; it has {_classes(module)}", where=where)
    return check_class(found, where=f"{where}: {named}")


def find_plugins(
    named: Sequence[str], registry: Registry, *, folder: Path, where: str
) -> list[type[Plugin]]:
    """Return the plugin classes of several names; ConfigError if one of them is given twice."""
    for each in named:
        if named.count(each) > 1:
            raise ConfigError(f"{each} is given twice", where=where)
    return [find_plugin(each, registry, folder=folder, where=where) for each in named]


def check_class(found: object, *, where: str) -> type[Plugin]:
    """Return a plugin class as it is; ConfigError says how to make one of anything else."""
    if isinstance(found, type) and issubclass(found, Plugin):
        return found
    if isinstance(found, Plugin):
        what, fix = f"an instance of {type(found).__name__}", "give the class itself"
    elif inspect.isfunction(found):
        what = f"the function {found.__name__}"
        fix = "decorate it with @stowplan.filter or @stowplan.score"
    else:
        what = f"the class {found.__name__}" if isinstance(found, type) else repr(found)
        fix = "give a class that is derived from stowplan.Plugin"
    raise ConfigError(f"{what} is not a plugin class. Fix: {fix}", where=where)


def place_of(plugin: type[Plugin]) -> str:
    """Return the file and line of a plugin class, or its module if there is no file."""
    file = getattr(sys.modules.get(plugin.__module__), "__file__", None)
    if not file:
        return f"module {plugin.__module__}"
    try:
        line = vars(plugin).get("__firstlineno__") or inspect.findsource(plugin)[1] + 1
    except (OSError, TypeError):
        return str(file)
    return f"{file}:{line}"


def is_loaded_twice(one: type[Plugin], other: type[Plugin]) -> bool:
    """Whether two classes are one, from one file under two module names."""
    return one.__module__ != other.__module__ and place_of(one) == place_of(other)


def load_module(path: Path) -> ModuleType:
    """Run a file as a module; imports of its neighbours work, as if Python had started it."""
    if not path.is_file():
        raise ConfigError("there is no such file", where=str(path))
    name = f"{_PREFIX}{path.stem}_{abs(hash(path.resolve())):x}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and the like look their module up by name.
    sys.modules[name] = module
    with _on_path(path.resolve().parent), _nothing_starts():
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as problem:
            del sys.modules[name]
            raise load_error(problem, str(path)) from None
    return module


def _imported(name: str, folder: Path, where: str) -> ModuleType:
    """Import a module that is installed, or in `folder`, where `python` would find it."""
    with _on_path(folder), _nothing_starts():
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as problem:
            if not (problem.name and f"{name}.".startswith(f"{problem.name}.")):
                raise load_error(problem, name) from None
            raise ConfigError(
                f"there is no module {name}. Fix: install it, run in its folder, or name the file:"
                " path/to/file.py:Class",
                where=where,
            ) from None
        except (Exception, SystemExit) as problem:
            raise load_error(problem, name) from None


def load_error(problem: BaseException, place: str) -> ConfigError:
    """Return the error of a file or module that cannot be loaded, with the line of the mistake."""
    if isinstance(problem, SyntaxError):
        line = (problem.text or "").strip()
        return ConfigError(
            f"is not Python: {problem.msg}{f': `{line}`' if line else ''}",
            where=f"{_shown(problem.filename or place, place)}:{problem.lineno or 0}",
        )
    if isinstance(problem, SystemExit):
        what = f"exits while it is loaded (sys.exit({problem.code!r}))"
    elif isinstance(problem, StowplanError):
        what = f"cannot be loaded: {problem}"
    else:
        what = f"cannot be loaded: {type(problem).__name__}: {problem}"
    return ConfigError(" ".join(what.split()), where=_line_of(problem, place))


def _line_of(problem: BaseException, place: str) -> str:
    """The innermost line of the user's own files: not of installed packages, nor of Python."""
    frames = traceback.extract_tb(problem.__traceback__)
    for frame in reversed(frames):
        shown = _shown(frame.filename, place)
        if shown == place or not shown.startswith(("<", sys.prefix, sys.base_prefix, _OURS)):
            return f"{shown}:{frame.lineno}"
    return place


def _shown(filename: str, place: str) -> str:
    """A file's path as the user gave it, if it is the file that they named."""
    return place if Path(filename) == Path(place).absolute() else filename


def _classes(module: ModuleType) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Plugin) and value is not Plugin
    ]
    if len(names) > _MOST_SHOWN:
        names[_MOST_SHOWN:] = [f"{len(names) - _MOST_SHOWN} more"]
    return ", ".join(names) or "no plugin class"


@contextmanager
def _on_path(folder: Path) -> Iterator[None]:
    """Import from a folder, also names that another folder had before."""
    place = str(folder.resolve())
    for name in [each for each, origin in _neighbours.items() if origin != place]:
        first = Path(place, name.partition(".")[0])
        if first.is_dir() or first.with_suffix(".py").is_file():
            del _neighbours[name]
            sys.modules.pop(name, None)
    before, is_new = set(sys.modules), place not in map(os.path.realpath, sys.path)
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)
        if is_new:
            _neighbours.update(
                (name, place)
                for name in sys.modules.keys() - before
                if str(getattr(sys.modules[name], "__file__", None) or "").startswith(
                    place + os.sep
                )
                and not name.startswith(_PREFIX)
            )


@contextmanager
def _nothing_starts() -> Iterator[None]:
    """Make `stowplan.run` do nothing while a file is loaded."""
    names = vars(sys.modules["stowplan"])
    missing = object()
    before = names.get("run", missing)
    names["run"] = lambda *_plugins, **_options: None
    try:
        yield
    finally:
        if before is missing:
            del names["run"]
        else:
            names["run"] = before
