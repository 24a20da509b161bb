"""FitRisk, with a Prometheus that answers what a test says."""

from __future__ import annotations

import math
from typing import Any

import pytest

from stowplan.errors import ConfigError
from stowplan.extender import ExtenderFilterResult
from stowplan.extender.algorithms import fit_risk
from stowplan.extender.algorithms.fit_risk import FitRisk
from stowplan.extender.prometheus import Prometheus, Result, Row

from .memory_provider import asked, gauge

RISK = 'risk{app="%s"}[%s]'
FIT = 'fit{app="%s"}[%s]'


class Known:
    """Answers by query; all others are unknown."""

    def __init__(self, **answers: dict[str, float]) -> None:
        self.asked: list[str] = []
        self._answers = {f'{name}{{app="a"}}[5m]': values for name, values in answers.items()}

    def ask(self, query: str, use_time: bool = True) -> Result:
        self.asked.append(query)
        values = self._answers.get(query, {})
        return Result(tuple(Row({"node": node}, value) for node, value in values.items()))


def algorithm(known: Any, **more: Any) -> FitRisk:
    fields: dict[str, Any] = {"risk_threshold": 0.5, "risk_query": RISK, "fit_query": FIT}
    return FitRisk(**(fields | {"lookback": "5m", "prometheus": known} | more))


def test_nodes_with_too_much_risk_are_rejected() -> None:
    known = Known(risk={"safe": 0.49, "at": 0.5, "high": 0.75, "nan": math.nan})
    result = algorithm(known).filter(asked("a", "high", "safe", "nan", "at", "new"))
    assert result.NodeNames == ["safe"]
    # As soon as any risk is known, a node without one is no candidate.
    assert result.FailedNodes == {
        "high": "Risk 0.75 is not below 0.50.",
        "at": "Risk 0.50 is not below 0.50.",
        "nan": "No risk is known for the node.",
        "new": "No risk is known for the node.",
    }
    assert known.asked == ['risk{app="a"}[5m]']


def test_without_any_risk_every_node_stays() -> None:
    tried = algorithm(Known())
    assert tried.filter(asked("a", "x", "y")) == ExtenderFilterResult(NodeNames=["x", "y"])
    assert gauge(tried.metrics, "pods_not_judged", reason="unknown_risk") == 1


def test_fit_is_rated() -> None:
    # 0.79 of 10 is 7.9, cut to 7.
    known = Known(fit={"b": 0.79, "a": 1.0, "none": 0.0, "nan": math.inf})
    assert str(algorithm(known).prioritize(asked("a", "nan", "none", "b", "a", "new"))) == (
        "[a=10, b=7, none=0]"
    )


def test_pods_of_other_namespaces_and_without_an_app_are_left_alone() -> None:
    known = Known(risk={"n": 0.9}, fit={"n": 0.9})
    other = algorithm(known, k8s_namespace="batch")
    assert other.filter(asked("a", "n")).NodeNames == ["n"]
    assert other.prioritize(asked("a", "n")) == []
    tried = algorithm(known)
    assert tried.filter(asked(None, "n")).NodeNames == ["n"]
    assert tried.prioritize(asked(None, "n")) == []
    assert gauge(tried.metrics, "pods_not_judged", reason="no_app_label") == 2
    assert known.asked == []


def test_an_app_cannot_leave_its_quotes() -> None:
    known = Known()
    algorithm(known).filter(asked('a"} or vector(1)\\', "n"))
    assert known.asked == ['risk{app="a\\"} or vector(1)\\\\"}[5m]']


def test_apps_without_end_do_not_become_queries_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fit_risk, "MOST_APPS", 2)
    known = Known(risk={"n": 0.9})
    tried = algorithm(known)
    for app in ("x", "a", "y", "z", "a"):
        tried.filter(asked(app, "n"))
    assert known.asked == ['risk{app="x"}[5m]', 'risk{app="a"}[5m]', 'risk{app="a"}[5m]']
    assert gauge(tried.metrics, "pods_not_judged", reason="too_many_apps") == 2


async def test_its_own_prometheus_is_a_part_to_be_started() -> None:
    tried = algorithm(None, prometheus_ip="http://127.0.0.1:9090", time="1577836800")
    [part] = tried.parts
    assert isinstance(part, Prometheus)
    assert algorithm(Known()).parts == ()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"risk_query": "risk"}, "risk_query: needs two %s"),
        ({"fit_query": "fit{app='%s'}"}, "fit_query: needs two %s"),
        ({"fit_query": "100% sure %s %s"}, "fit_query: needs two %s"),
        ({"prometheus": None}, "it needs prometheus_ip or prometheus"),
        ({"prometheus_ip": "http://127.0.0.1:9090"}, "an address and a time of its own"),
    ],
)
def test_mistakes(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        algorithm(Known(), **fields)


def test_its_name() -> None:
    assert str(algorithm(Known())) == "FitRiskAlgorithm"
