"""`config.yaml` of the extender: loggers, the algorithm, its data, and settings of the service.

    loggers:
      scheduler.main: DEBUG
    algorithms: [mine.algorithms:Odd]      # of the user's own; then there is a tag !Odd
    algorithm: !Odd {remainder: 1}

`load` is called by `stowplan extender`, after `add_plugin_folders` made the user's modules
importable. The file is the WCA scheduler's; tags build only classes that are listed here, named
under `algorithms:`, or installed with the entry point group `stowplan.extender_algorithms`.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated, Any, Final

from stowplan.errors import ConfigError
from stowplan.extender.algorithm import Algorithm
from stowplan.extender.arguments import MisfitError, Range, fitted, hints_of, shown
from stowplan.extender.data import DataProvider
from stowplan.extender.loggers import apply_loggers, read_loggers
from stowplan.extender.tags import Document, Tags
from stowplan.loader.files import read_file
from stowplan.loader.malformed import Malformed, text_of
from stowplan.logs import get_logger, kv
from stowplan.plugin_failures import place_of

__all__ = ["Configured", "Settings", "add_plugin_folders", "apply_loggers", "load"]

log = get_logger(__name__)

ENTRY_POINTS: Final = "stowplan.extender_algorithms"
_HERE: Final = "stowplan.extender"
#: What comes with Stowplan, by tag; imported when it is used.
SHIPPED: Final[Mapping[str, str]] = {
    "NOPAlgorithm": f"{_HERE}.algorithms.nop:NOPAlgorithm",
    "Fit": f"{_HERE}.algorithms.fit:Fit",
    "LeastUsed": f"{_HERE}.algorithms.least_used:LeastUsed",
    "BAR": f"{_HERE}.algorithms.bar:BAR",
    "LeastUsedBAR": f"{_HERE}.algorithms.least_used_bar:LeastUsedBAR",
    "HierBAR": f"{_HERE}.algorithms.hier_bar:HierBAR",
    "DramHitRatioProvision": f"{_HERE}.algorithms.dram_hit_ratio:DramHitRatioProvision",
    "StaticAssigner": f"{_HERE}.algorithms.static_assigner:StaticAssigner",
    "Score": f"{_HERE}.algorithms.score:Score",
    "FitRisk": f"{_HERE}.algorithms.fit_risk:FitRisk",
    "FitRiskAlgorithm": f"{_HERE}.algorithms.fit_risk:FitRisk",
    "Plugins": f"{_HERE}.algorithms.plugins:Plugins",
    "Kubeapi": f"{_HERE}.kubeapi:Kubeapi",
    "Prometheus": f"{_HERE}.prometheus:Prometheus",
    "SSL": f"{_HERE}.client_tls:SSL",
    "Queries": f"{_HERE}.cluster_data:Queries",
    "ClusterDataProvider": f"{_HERE}.cluster_data:ClusterDataProvider",
    "ClusterScoreDataProvider": f"{_HERE}.cluster_data:ClusterScoreDataProvider",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Fields of the file under their own names; each is checked by its annotation."""

    #: Pods of other namespaces are let through unseen; none means that all are served.
    monitored_namespaces: tuple[str, ...] = ()
    #: Seconds; 0 is never.
    reschedule_interval: Annotated[float, Range(0, 60)] = 0.0
    #: Percent of an app's memory that its working set may be if it is to get persistent memory.
    dram_threshold: Annotated[float, Range(0)] = 100.0
    #: Seconds that pods with both kinds of memory begin on persistent memory; none: not at all.
    cold_start_duration: Annotated[float | None, Range(0)] = None
    #: Whether pods are annotated with their working set as limit of DRAM.
    if_toptier_limit: bool = True
    #: Clients with the token in this file may request rescheduling by POST.
    reschedule_token_file: str = ""
    #: Whether GET /reschedule deletes pods, as the WCA scheduler's does.
    reschedule_by_get: bool = False
    #: Pods that go in one round.
    reschedule_limit: Annotated[int, Range(1)] = 10
    #: What the service itself asks, beside the algorithm.
    data_provider: DataProvider | None = None
    #: A `Kubeapi`; it is not imported here, because few configurations have one.
    kubeapi: Any = None


@dataclass(frozen=True, slots=True)
class Configured:
    algorithm: Algorithm
    loggers: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = Settings()
    #: Every object that a tag has built, those that others are made of first, and what those
    #: name as their own `parts`.
    parts: tuple[Any, ...] = ()


def add_plugin_folders(folders: Sequence[Path]) -> None:
    """Let `algorithms:` and entry points find what is in these folders.

    After everything else in `sys.path`, so that no module of the user replaces one of ours.
    PYTHONPATH does not work everywhere: a pex and the image ignore it.
    """
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"{str(folder)!r} is not a folder", where="--plugins")
        if str(folder.resolve()) not in sys.path:
            sys.path.append(str(folder.resolve()))
    importlib.invalidate_caches()


def load(path: Path) -> Configured:
    """ConfigError says what is wrong, and where."""
    try:
        return _load(path)
    except ConfigError as error:
        raise ConfigError(f"Cannot load config file! : {error}") from error.__cause__


def _load(path: Path) -> Configured:
    try:
        text = text_of(read_file(path))
    except Malformed as error:
        raise ConfigError(str(error), where=str(path)) from None
    except ConfigError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise ConfigError(f"Cannot find configuration file: {str(path)!r}") from None
        raise
    tags = Tags(SHIPPED)
    document = Document(text, str(path), tags)
    for cls in _own_algorithms(document):
        tags.register(cls)
    content = document.build()
    algorithm = content.pop("algorithm", None)
    if not isinstance(algorithm, Algorithm):
        place = document.marks.get("algorithm", f" in {str(path)!r}")
        raise ConfigError(f"algorithm: {_why_no_algorithm(algorithm, place)}")
    loggers = read_loggers(content.pop("loggers", None), document.marks.get("loggers", ""))
    content.pop("algorithms", None)
    parts = [*document.built]
    for built in document.built:
        parts += getattr(built, "parts", ())
    return Configured(algorithm, loggers, _settings(content, document), tuple(parts))


def _settings(content: Mapping[str, Any], document: Document) -> Settings:
    hints = dict(hints_of(Settings))
    if content.get("kubeapi") is not None:
        from stowplan.extender.kubeapi import Kubeapi

        hints["kubeapi"] = Kubeapi
    given = {}
    for name, value in content.items():
        if name not in hints:
            near = difflib.get_close_matches(name, (*hints, "loggers", "algorithms"), 1)
            hint = f"did you mean {near[0]}?" if near else "nothing reads it"
            place = document.marks.get(name, "").strip()
            log.warning("Unknown field", extra=kv(field=name, where=place, hint=hint))
        elif value is not None:
            try:
                given[name] = fitted(value, hints[name])
            except MisfitError as problem:
                raise ConfigError(
                    f"Invalid value {shown(value)}{document.marks.get(name, '')} "
                    f"for field {name!r}: {problem}"
                ) from None
    return Settings(**given)


def _own_algorithms(document: Document) -> list[type]:
    found = [_installed(point) for point in entry_points(group=ENTRY_POINTS)]
    where = document.marks.get("algorithms", "")
    named = document.build_field("algorithms")
    try:
        paths = fitted(named or [], list[str])
    except MisfitError as problem:
        raise ConfigError(
            f"Invalid value {shown(named)}{where} for field 'algorithms': {problem}"
        ) from None
    return found + [_imported(path, where) for path in paths]


def _installed(point: EntryPoint) -> type:
    try:
        return _algorithm_class(point.load(), f"entry point {point.value}")
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"entry point {point.value}: {_text(error)}") from error


def _imported(path: str, where: str) -> type:
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise ConfigError(f"algorithms: {path!r} is not of the form module:Class{where}")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        problem = f"{_text(error)}{_remedy(error, module)}"
        raise ConfigError(f"algorithms: {path!r} cannot be imported{where}: {problem}") from (
            None if isinstance(error, ImportError | AttributeError) else error
        )
    return _algorithm_class(found, f"algorithms: {path!r}{where}")


def _remedy(error: BaseException, module: str) -> str:
    """What to do about a module that cannot be imported."""
    if isinstance(error, AttributeError):
        file = getattr(sys.modules.get(module), "__file__", None)
        return f" (it is {file})" if file else ""
    if isinstance(error, SyntaxError):
        return ""  # its text has the place
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return _line_of(error)
    top = module.partition(".")[0]
    if error.name in (module, top):
        return f". Fix: name the folder that holds {top} or {top}.py with --plugins DIR"
    if error.name.partition(".")[0] == "wca":
        return f"{_line_of(error)}. Fix: import the same names from stowplan.extender"
    return (
        f"{_line_of(error)}. Fix: install it into a folder of --plugins (pip install --target DIR)"
    )


def _line_of(error: BaseException) -> str:
    """` (file:line)` of the user's module: the frames of an import come before it."""
    trace = error.__traceback__
    while trace is not None and (
        (file := trace.tb_frame.f_code.co_filename) in (__file__, importlib.__file__)
        or file.startswith("<frozen ")
    ):
        trace = trace.tb_next
    return place_of(error.with_traceback(trace))


def _why_no_algorithm(found: Any, place: str) -> str:
    if found is None:
        return f"there is none{place}; write for example algorithm: !NOPAlgorithm"
    cls = type(found)
    if cls.__module__ in sys.builtin_module_names or cls.__module__.startswith(f"{_HERE}."):
        return f"{shown(found)} is none{place}; write for example algorithm: !NOPAlgorithm"
    return (
        f"{shown(found)} is none{place}. Fix: let class {cls.__name__} inherit from "
        "stowplan.extender.Algorithm, or from one of stowplan.extender.algorithms such as Fit"
    )


def _algorithm_class(found: Any, what: str) -> type:
    if not isinstance(found, type):
        raise ConfigError(f"{what} is not a class")
    return found


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
