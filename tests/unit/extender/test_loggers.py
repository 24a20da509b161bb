"""`loggers:` of the extender's configuration: the WCA scheduler's names mean loggers of ours."""

from __future__ import annotations

import logging

import pytest

from stowplan.extender import loggers
from stowplan.extender.configuration import apply_loggers

from .configuration_kit import Load


def level_of(name: str) -> int:
    return logging.getLogger(name).level


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
    name: str, ours: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    apply_loggers({name: "ERROR"})
    assert [level_of(each) for each in ours] == [logging.ERROR] * len(ours)
    assert caplog.records == []


def test_every_name_means_a_module_that_there_is() -> None:
    import importlib.util

    meant = {each for targets in loggers._NAMES.values() for each in targets}
    assert [name for name in meant if importlib.util.find_spec(name) is None] == []


def test_an_unknown_logger_is_set_and_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    apply_loggers({"my.algorithms": "TRACE", "other": "INFO"}, modules=["my.algorithms.odd"])
    # get_logger puts the loggers of other packages below ours.
    assert level_of("my.algorithms") == level_of("stowplan.my.algorithms") == 9
    apply_loggers({"wca.scheduler.algorithm": "INFO"})
    assert [record.__dict__["kv"] for record in caplog.records] == [
        {"logger": "other", "hint": "did you mean scheduler.main?"},
        {"logger": "wca.scheduler.algorithm", "hint": "did you mean scheduler.algorithms?"},
    ]


def test_levels(load_text: Load) -> None:
    written = "loggers: {wca: trace, scheduler.main: Warn, root: critical}"
    configured = load_text(f"algorithm: !NOPAlgorithm\n{written}\n")
    assert configured.loggers == {"wca": "TRACE", "scheduler.main": "WARN", "root": "CRITICAL"}
    apply_loggers(configured.loggers)
    assert logging.getLogger().level == logging.CRITICAL
    assert level_of("stowplan.extender") == 9
    assert level_of("stowplan.extender.serving") == logging.WARNING
