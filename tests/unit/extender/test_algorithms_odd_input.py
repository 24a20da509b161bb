"""No pod, node, number or configuration file makes an algorithm or the reader of files raise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from stowplan.errors import ConfigError
from stowplan.extender import Algorithm, ExtenderArgs
from stowplan.extender.algorithms import (
    BAR,
    DramHitRatioProvision,
    Fit,
    HierBAR,
    LeastUsed,
    LeastUsedBAR,
    NOPAlgorithm,
    Score,
    StaticAssigner,
)
from stowplan.extender.algorithms.fit_risk import FitRisk
from stowplan.extender.algorithms.plugins import Plugins
from stowplan.extender.configuration import load
from stowplan.extender.data import Resource
from stowplan.extender.prometheus import Result, Row
from tests.examples import examples

from .memory_provider import MemoryProvider

MANY = 40
NAMES = st.sampled_from(["a", "b", "c", ""])
APPS = st.sampled_from(["x", "y", "z", "", "\x00", "ü"])
_numbers = st.sampled_from([0.0, -1.0, 0.5, 3.0, 7, 2**70, 5e-324, 1e-300, 1.7e308, -1.7e308]) | (
    st.floats()
)
_resources = st.dictionaries(st.sampled_from([r.value for r in Resource]), _numbers)
_providers = st.builds(
    MemoryProvider,
    nodes=st.dictionaries(NAMES, _resources),
    apps=st.dictionaries(APPS, _resources),
    pods=st.dictionaries(NAMES, st.dictionaries(APPS, st.integers(0, 3))),
    dram_hit_ratio=st.dictionaries(NAMES, st.floats()),
    pmem_nodes=st.sets(NAMES).map(tuple),
    profiles=st.dictionaries(APPS, st.floats()),
    types=st.dictionaries(NAMES, st.sampled_from(["pmem", "dram", "unknown", "tape", ""])),
)
_json = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
_pods = st.one_of(
    st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), _json),
    st.fixed_dictionaries({"metadata": st.fixed_dictionaries({"labels": _json})}),
    APPS.map(lambda app: {"metadata": {"namespace": "default", "labels": {"app": app}}}),
)
_node = st.dictionaries(st.sampled_from(["metadata", "spec"]), _json)
_nodes = st.none() | st.lists(_node, max_size=2)
_requests = st.builds(ExtenderArgs, _nodes, _pods, st.lists(NAMES, max_size=4))


class Rows:
    """A Prometheus that answers every query with the same rows."""

    def __init__(self, values: dict[str, float]) -> None:
        self._values = values

    def ask(self, query: str, use_time: bool = True) -> Result:
        rows = [Row({"node": node}, value) for node, value in self._values.items()]
        return Result((*rows, Row({}, 1.0)))


def with_risks(provider: MemoryProvider) -> Algorithm:
    query = '%s{lookback="%s"}'
    return FitRisk(
        risk_threshold=0.5,
        risk_query=query,
        fit_query=query,
        lookback="5m",
        prometheus=Rows(dict(provider.dram_hit_ratio)),
    )


DIMENSIONS = list(Resource)
ALGORITHMS: list[Callable[[MemoryProvider], Algorithm]] = [
    NOPAlgorithm,
    Fit,
    lambda provider: Fit(provider, DIMENSIONS, cpu_scale_factor=0.5),
    lambda provider: LeastUsed(provider, DIMENSIONS),
    lambda provider: BAR(provider, DIMENSIONS),
    lambda provider: LeastUsedBAR(provider, DIMENSIONS),
    lambda provider: HierBAR(provider, DIMENSIONS, merge_threshold=1.5),
    HierBAR,
    DramHitRatioProvision,
    lambda provider: StaticAssigner(provider, {"a": {"x": 1}, "b": {}}),
    lambda provider: Score(provider, DIMENSIONS, cpu_scale_factor=2.0),
    lambda provider: Score(provider, score_target=1.5, strict_mode_placement=True),
    with_risks,
    lambda provider: Plugins({}),
]


@pytest.mark.parametrize("number", range(len(ALGORITHMS)))
@examples(MANY)
@given(provider=_providers, requests=st.lists(_requests, min_size=1, max_size=2))
def test_no_input_makes_an_algorithm_raise(
    number: int, provider: MemoryProvider, requests: list[ExtenderArgs]
) -> None:
    algorithm = ALGORITHMS[number](provider)
    for request in requests:
        result = algorithm.filter(request)
        failed = {*result.FailedNodes, *result.FailedAndUnresolvableNodes}
        assert result.Error == ""
        # Every node is either in or out.
        assert failed.isdisjoint(result.NodeNames)
        for score in algorithm.prioritize(request):
            assert type(score.Score) is int
    assert all(isinstance(task, str) for task in algorithm.reschedule())
    registry = algorithm.get_metrics_registry()
    if registry is not None:
        assert all(isinstance(line, str) for line in registry.lines())


_PIECES = st.sampled_from(
    [
        "algorithm: ", "algorithms: ", "loggers: ", "!NOPAlgorithm", "!Fit ", "!Score", "!Env ",
        "!Env PATH", "!Kubeapi", "!Queries", "!!python/object/apply:os.getcwd []", "!!binary ",
        "!!set ", "!!timestamp ", "{", "}", "[", "]", "&a ", "*a", "<<: ", ": ", "- ", "\n", "  ",
        "...", "---", "'", '"', "|", ">", "%", "dimensions: [cpu]", "data_provider: ", "-1e400",
        "monitored_namespaces: ", "dram_threshold: ", "null", "kubeapi: ", "os:system",
        "json:loads", "?", "@", "`", "\t", "#", "\x85", "~", "2020-99-99", "!!int x", "0x", "1_000",
    ]
)  # fmt: skip


@examples(500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_PIECES, max_size=14).map("".join) | st.text() | st.binary())
def test_no_file_makes_reading_raise_anything_but_a_mistake(
    tmp_path: Path, content: str | bytes
) -> None:
    file = tmp_path / "config.yaml"
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    file.write_bytes(raw)
    problem = ""
    try:
        assert isinstance(load(file).algorithm, Algorithm)
    except ConfigError as mistake:
        problem = str(mistake)
    assert not problem or problem.startswith("Cannot load config file! : ")
