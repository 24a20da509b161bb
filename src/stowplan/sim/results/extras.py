"""Optional packages: imported when they are needed, with the command that installs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from stowplan.errors import ConfigError


def needed(module: str, extra: str, *, where: str) -> Any:
    """A module of an extra. ConfigError says how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as problem:
        name = (problem.name or module).partition(".")[0]
        raise ConfigError(
            f"needs {name}, which is not installed. Fix: pip install 'stowplan[{extra}]'",
            where=where,
        ) from None
