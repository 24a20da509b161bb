"""`loggers:` of a configuration: levels by logger, under the WCA scheduler's names or ours.

`configuration` checks them and hands them on; `stowplan extender` applies them. A name may be a
part of the WCA scheduler (with or without `wca.` in front), a logger of ours or the module of an
algorithm of the user's own. Others are set, too, but warned about: nothing of ours logs there.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from stowplan.errors import ConfigError
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

TRACE: Final = 9
LEVELS: Final = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARNING": logging.WARNING,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "CRITICAL": logging.CRITICAL,
    "FATAL": logging.CRITICAL,
}
_OURS: Final = "stowplan.extender"
_HTTP: Final = "stowplan.http"
_ALGORITHMS: Final = f"{_OURS}.algorithms"
_DATA: Final = (f"{_OURS}.cluster_data", f"{_OURS}.cluster_view", f"{_OURS}.prometheus")
#: The WCA scheduler's names, without `wca.`, and which of ours log what they did.
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "wca": (_OURS, _HTTP),
    "scheduler": (_OURS, _HTTP),
    "scheduler.main": (f"{_OURS}.serving", f"{_OURS}.configuration"),
    "scheduler.server": (f"{_OURS}.service", f"{_OURS}.mutation", f"{_OURS}.rescheduling"),
    "scheduler.components": (f"{_OURS}.tags",),
    "scheduler.metrics": (f"{_OURS}.metrics",),
    "scheduler.types": ("stowplan.api.extender_protocol", f"{_OURS}.reading", f"{_OURS}.writing"),
    "scheduler.kubeapi": (f"{_OURS}.kubeapi", f"{_OURS}.cluster_view"),
    "scheduler.data_providers": _DATA,
    "scheduler.data_providers.cluster_data_provider": _DATA,
    "scheduler.data_providers.score": _DATA,
    "scheduler.data_providers.score.cluster": _DATA,
    "scheduler.algorithms": (_ALGORITHMS,),
    "scheduler.algorithms.base": (f"{_ALGORITHMS}.apps",),
    "scheduler.algorithms.fit": (f"{_ALGORITHMS}.fit",),
    "scheduler.algorithms.bar": (f"{_ALGORITHMS}.bar",),
    "scheduler.algorithms.least_used": (f"{_ALGORITHMS}.least_used",),
    "scheduler.algorithms.least_used_bar": (f"{_ALGORITHMS}.least_used_bar",),
    "scheduler.algorithms.hierbar": (f"{_ALGORITHMS}.hier_bar",),
    "scheduler.algorithms.dram_hit_ratio_provision": (f"{_ALGORITHMS}.dram_hit_ratio",),
    "scheduler.algorithms.static_assigner": (f"{_ALGORITHMS}.static_assigner",),
    "scheduler.algorithms.score": (f"{_ALGORITHMS}.score",),
    "scheduler.algorithms.nop_algorithm": (f"{_ALGORITHMS}.nop",),
    "prometheus": (f"{_OURS}.prometheus",),
    "config": (f"{_OURS}.configuration", f"{_OURS}.tags"),
    "logger": (f"{_OURS}.loggers",),
    "metrics": (f"{_OURS}.metrics",),
}


def read_loggers(written: Any, where: str = "") -> dict[str, str]:
    """Levels by name, checked; ConfigError for what is no level."""
    if written is None:
        return {}
    if not isinstance(written, dict):
        raise ConfigError(
            "Loggers configuration error: log levels are mapping from logger name to log level!"
            + where
        )
    levels = {}
    for name, level in written.items():
        if not isinstance(level, str) or level.upper() not in LEVELS:
            allowed = ", ".join(LEVELS)
            raise ConfigError(
                f"Loggers configuration error: the level {level!r} of {name!r} is none of "
                f"{allowed}{where}"
            )
        levels[str(name)] = level.upper()
    return levels


def apply_loggers(loggers: Mapping[str, str], modules: Iterable[str] = ()) -> None:
    """Set the levels. `modules`: where algorithms of the user's own come from."""
    logging.addLevelName(TRACE, "TRACE")
    own = {module.partition(".")[0] for module in modules}
    for name, level in loggers.items():
        targets = ours_for(name)
        if not targets:
            # Below our own logger is where get_logger puts the loggers of other packages.
            targets = (name, get_logger(name).name)
            if name.partition(".")[0] not in own:
                near = difflib.get_close_matches(name.removeprefix("wca."), _NAMES, 1)
                hint = f"did you mean {(near or ['scheduler.main'])[0]}?"
                log.warning("There is no such logger", extra=kv(logger=name, hint=hint))
        for target in targets:
            logging.getLogger(target).setLevel(LEVELS[level])


def ours_for(name: str) -> tuple[str, ...]:
    """The loggers that a name stands for; none if it is unknown."""
    if name in ("", "root"):
        return ("",)
    if name == "stowplan" or name.startswith("stowplan."):
        return (name,)
    return _NAMES.get(name) or _NAMES.get(name.removeprefix("wca."), ())
