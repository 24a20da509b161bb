"""`config.yaml` of the extender: loggers, the algorithm, which namespaces it serves.

`load` is called by `stowplan extender`. Only what is listed here can be built by a tag: a tag never
imports or runs anything.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from stowplan.errors import ConfigError
from stowplan.extender.algorithm import Algorithm
from stowplan.extender.algorithms.nop import NOPAlgorithm

_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


@dataclass(frozen=True, slots=True)
class Settings:
    #: Pods of other namespaces are let through unseen; none means that all are served.
    monitored_namespaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Configured:
    algorithm: Algorithm
    loggers: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = Settings()


class _Loader(yaml.SafeLoader):
    """Knows the tags of algorithms."""


def _nop(loader: _Loader, node: yaml.Node) -> NOPAlgorithm:
    return NOPAlgorithm()


_Loader.add_constructor("!NOPAlgorithm", _nop)


def load(path: Path) -> Configured:
    """ConfigError says what is wrong, and where."""
    where = str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"Cannot find configuration file: {where!r}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", where=where) from None
    try:
        content: Any = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        raise ConfigError(" ".join(str(error).split()), where=where) from None
    if not isinstance(content, dict) or not isinstance(content.get("algorithm"), Algorithm):
        raise ConfigError("there is no algorithm; write `algorithm: !NOPAlgorithm`", where=where)
    loggers = content.get("loggers") or {}
    for name, level in loggers.items():
        if level not in _LEVELS:
            raise ConfigError(
                f"{level!r} is none of {', '.join(_LEVELS)}", where=f"{where}: loggers.{name}"
            )
    namespaces = content.get("monitored_namespaces") or []
    settings = Settings(tuple(map(str, namespaces)))
    return Configured(content["algorithm"], loggers, settings)


def apply_loggers(loggers: Mapping[str, str]) -> None:
    """The original's names are below `scheduler`; ours are below `stowplan.extender`."""
    for level in loggers.values():
        logging.getLogger("stowplan.extender").setLevel(level)
