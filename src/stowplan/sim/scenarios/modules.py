"""Loads a Python file by its path, for scenarios and plugins of a user's own.

What must stay true: a file that cannot be loaded is a ConfigError with its line; a traceback would
show our machinery and hide the mistake.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from stowplan.errors import ConfigError


def load_module(path: Path) -> ModuleType:
    """The file run as a module; imports of its neighbours work, as if Python had started it."""
    if not path.is_file():
        raise ConfigError("there is no such file", where=str(path))
    name = f"stowplan_user_{path.stem}_{abs(hash(path.resolve())):x}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    # Dataclasses and the like look their module up by name.
    sys.modules[name] = module
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as problem:
        del sys.modules[name]
        raise ConfigError(
            f"is not Python: {problem.msg}{_shown(problem)}",
            where=f"{problem.filename or path}:{problem.lineno or 0}",
        ) from None
    except Exception as problem:
        del sys.modules[name]
        raise ConfigError(
            f"cannot be loaded: {type(problem).__name__}: {problem}",
            where=f"{path}:{_line_in(path, problem)}",
        ) from None
    finally:
        sys.path.remove(folder)
    return module


def _shown(problem: SyntaxError) -> str:
    line = (problem.text or "").strip()
    return f": `{line}`" if line else ""


def _line_in(path: Path, problem: Exception) -> int:
    """The line of the file itself, however deep in other code the error was raised."""
    lines = [
        frame.lineno or 0
        for frame in traceback.extract_tb(problem.__traceback__)
        if Path(frame.filename) == path
    ]
    return lines[-1] if lines else 0
