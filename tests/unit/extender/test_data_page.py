"""docs/extender-data.md says what the code does."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from stowplan.extender import mutation
from stowplan.extender.algorithms import BaseAlgorithm
from stowplan.extender.cluster_data import ClusterDataProvider, ClusterScoreDataProvider, Queries
from stowplan.extender.configuration import Settings, load
from stowplan.extender.data import NodeType
from stowplan.extender.kubeapi import Kubeapi
from stowplan.extender.prometheus import Prometheus, Result, Row, _Kept
from tests.unit.extender.memory_provider import MemoryProvider, asked

PAGE = (Path(__file__).parents[3] / "docs" / "extender-data.md").read_text()


def table(heading: str) -> dict[str, str]:
    """The first two columns of a section's table, by each name of the first."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = {}
    for line in section.splitlines():
        cells = line.strip("|").split("|")
        if line.startswith("| `"):
            for name in re.findall(r"`([^`]+)`", cells[0]):
                found[name] = cells[1].strip().strip("`")
    return found


def defaults(cls: type) -> dict[str, object]:
    parameters = inspect.signature(cls).parameters.values()
    return {each.name: each.default for each in parameters}


def test_the_example_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "http://127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    path = tmp_path / "config.yaml"
    path.write_text(example)
    assert isinstance(load(path).settings.data_provider, ClusterDataProvider)


@pytest.mark.parametrize(
    ("heading", "cls"), [("!Kubeapi", Kubeapi), ("!Prometheus", Prometheus), ("!Queries", Queries)]
)
def test_all_arguments_are_there_with_their_defaults(heading: str, cls: type) -> None:
    told, real = table(heading), defaults(cls)
    assert list(told) == list(real)
    for name, default in real.items():
        if isinstance(default, float):
            assert float(told[name]) == default
        elif isinstance(default, str) and "serviceaccount" not in default:
            assert told[name] == default


def test_the_labels_that_score_reads() -> None:
    """The rows that the page shows are understood: apps by `app`, nodes by `node`, `nodetype`."""
    heading = "\n## !ClusterScoreDataProvider\n"
    section = PAGE.partition(heading)[2].partition("\n## ")[0]
    told, real = table("!ClusterScoreDataProvider"), defaults(ClusterScoreDataProvider)
    assert told == {name: real[name] for name in ("app_profiles_query", "node_type_query")}
    (block,) = re.findall(r"```text\n(.*?)```", section, re.DOTALL)
    prometheus = Prometheus("127.0.0.1", 1)
    for query in told.values():
        rows = tuple(
            Row(dict(re.findall(r'(\w+)="(\w[^"]*)"', line)), float(line.split()[-1]))
            for line in block.splitlines()
            if line.startswith(query)
        )
        prometheus._kept[query, True] = _Kept(Result(rows, 1), at=prometheus.clock.monotonic())
    provider = ClusterScoreDataProvider(Kubeapi("http://127.0.0.1", 1), prometheus)
    assert provider.get_apps_profile() == {"memcached": 0.7}
    assert provider.get_nodes_type() == {"worker-1": NodeType.PMEM, "worker-2": NodeType.DRAM}


def test_all_fields_of_rescheduling_are_there() -> None:
    told, settings = table("Rescheduling"), Settings()
    real = [name for name in Settings.__dataclass_fields__ if name.startswith("reschedule_")]
    assert sorted(told) == sorted(real)
    assert float(told["reschedule_interval"]) == settings.reschedule_interval
    assert int(told["reschedule_limit"]) == settings.reschedule_limit


def test_all_annotations_are_there() -> None:
    told = table("The webhook")
    assert list(told) == [mutation.TOP_TIER, mutation.MEMORY_TYPE, mutation.COLD_START]


def test_the_base_class_in_the_guide_for_users_of_the_wca_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/from-wca-scheduler.md: its algorithm loads with this page's provider, and decides."""
    guide = (Path(__file__).parents[3] / "docs" / "from-wca-scheduler.md").read_text()
    (source,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    (own,) = re.findall(r"```yaml\n(algorithms: .*?)```", guide, re.DOTALL)
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "http://127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "few_apps.py").write_text(source)
    path = tmp_path / "config.yaml"
    path.write_text(example.partition("algorithm: ")[0] + own)
    algorithm = load(path).algorithm
    assert isinstance(algorithm, BaseAlgorithm)
    algorithm.data_provider = MemoryProvider(pods={"full": {"a": 1, "b": 1, "c": 1}})
    answer = algorithm.filter(asked("web", "full", "empty"))
    assert answer.NodeNames == ["empty"]
    assert answer.FailedNodes == {"full": "3 other apps are there"}
    assert algorithm.filter(asked("a", "full")).NodeNames == ["full"]
    scores = algorithm.prioritize(asked("web", "full", "empty"))
    assert {each.Host: each.Score for each in scores} == {"full": 0, "empty": 10}
    assert [each.Score for each in algorithm.prioritize(asked(None, "empty"))] == [0]
