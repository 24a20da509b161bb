"""`loggers:` of the extender's configuration: the WCA scheduler's names mean loggers of ours."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from stowplan.extender import loggers
from stowplan.extender.configuration import apply_loggers

from .configuration_kit import Load


@pytest.fixture
def levels() -> Iterator[Callable[[str], int]]:
    """Tells the level of a logger; all are put back at the end."""
    before = {
        name: logger.level
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger)
    }
    yield lambda name: logging.getLogger(name).level
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            logger.setLevel(before.get(name, logging.NOTSET))


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("wca", ["stowplan.extender"]),
        ("wca.scheduler", ["stowplan.extender"]),
        ("scheduler.main", ["stowplan.extender.serving", "stowplan.extender.configuration"]),
        ("wca.scheduler.main", ["stowplan.extender.serving"]),
        ("wca.scheduler.server", ["stowplan.extender.service"]),
        ("wca.scheduler.algorithms", ["stowplan.extender.algorithms"]),
        ("scheduler.algorithms.hierbar", ["stowplan.extender.algorithms.hier_bar"]),
        ("wca.scheduler.data_providers", ["stowplan.extender.cluster_data"]),
        ("wca.prometheus", ["stowplan.extender.prometheus"]),
        ("wca.config", ["stowplan.extender.configuration", "stowplan.extender.tags"]),
        ("stowplan.api", ["stowplan.api"]),
    ],
)
def test_names_of_the_wca_scheduler_mean_loggers_of_ours(
    name: str, ours: list[str], levels: Callable[[str], int], caplog: pytest.LogCaptureFixture
) -> None:
    apply_loggers({name: "ERROR"})
    assert [levels(each) for each in ours] == [logging.ERROR] * len(ours)
    assert caplog.records == []


def test_every_name_means_a_module_that_there_is() -> None:
    import importlib.util

    meant = {each for targets in loggers._NAMES.values() for each in targets}
    assert [name for name in meant if importlib.util.find_spec(name) is None] == []


def test_an_unknown_logger_is_set_and_warned_about(
    levels: Callable[[str], int], caplog: pytest.LogCaptureFixture
) -> None:
    apply_loggers({"my.algorithms": "TRACE", "other": "INFO"}, modules=["my.algorithms.odd"])
    # get_logger puts the loggers of other packages below ours.
    assert levels("my.algorithms") == levels("stowplan.my.algorithms") == 9
    apply_loggers({"wca.scheduler.algorithm": "INFO"})
    assert [record.__dict__["kv"] for record in caplog.records] == [
        {"logger": "other", "hint": "did you mean scheduler.main?"},
        {"logger": "wca.scheduler.algorithm", "hint": "did you mean scheduler.algorithms?"},
    ]


def test_levels(levels: Callable[[str], int], load_text: Load) -> None:
    written = "loggers: {wca: trace, scheduler.main: Warn, root: critical}"
    configured = load_text(f"algorithm: !NOPAlgorithm\n{written}\n")
    assert configured.loggers == {"wca": "TRACE", "scheduler.main": "WARN", "root": "CRITICAL"}
    root = logging.getLogger().level
    try:
        apply_loggers(configured.loggers)
        assert logging.getLogger().level == logging.CRITICAL
    finally:
        logging.getLogger().setLevel(root)
    assert levels("stowplan.extender") == 9
    assert levels("stowplan.extender.serving") == logging.WARNING
