"""Which reader a file gets, exports of kube-scheduler-simulator, and traces put together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.apiserver import kubelet
from stowplan.errors import ConfigError
from stowplan.sim.traces import Arrival, Disruption, Trace, combined, load_trace
from stowplan.sim.traces.model import RUN_SECONDS, ReadCounts

EXAMPLES = Path(__file__).parents[4] / "examples" / "traces"


def kinds(trace: Trace) -> list[str]:
    return [f"{each['kind']}/{each['metadata']['name']}" for each in trace.objects()]


def test_the_kubelets_know_our_annotation() -> None:
    assert kubelet.RUN_SECONDS == RUN_SECONDS


def test_an_export() -> None:
    trace = load_trace(EXAMPLES / "export.yaml")
    assert kinds(trace) == [
        "Namespace/shop",
        "PriorityClass/important",
        "StorageClass/local",
        "PersistentVolumeClaim/orders",
        "PersistentVolume/disk-1",
        "Node/node-a",
        "Node/node-b",
        "Pod/web-0",
    ]
    assert (trace.pods, trace.nodes) == (2, 2)
    waiting = list(trace.arrivals())
    assert [each.at for each in waiting] == [0.0, 0.0]
    assert [each.manifest["metadata"] for each in waiting] == [
        {"name": "orders-db", "namespace": "shop"},
        {"name": "web-1", "namespace": "shop", "labels": {"app": "web"}},
    ]
    made = {each["metadata"]["name"]: each for each in trace.objects()}
    assert all("uid" not in each["metadata"] for each in made.values())
    assert made["disk-1"]["spec"]["claimRef"] == {
        "kind": "PersistentVolumeClaim",
        "namespace": "shop",
        "name": "orders",
        "apiVersion": "v1",
    }
    assert made["node-a"]["status"]["conditions"] == [{"type": "Ready", "status": "True"}]
    assert "serviceAccountName" not in made["web-0"]["spec"]
    assert trace.config is not None
    assert trace.config["kind"] == "KubeSchedulerConfiguration"
    json.dumps([*made.values(), *(each.manifest for each in waiting), trace.config])


def test_an_export_whose_pods_are_placed_anew() -> None:
    trace = load_trace(EXAMPLES / "export.yaml", reschedule=True)
    assert [each.manifest["metadata"]["name"] for each in trace.arrivals()] == [
        *("web-0", "orders-db", "web-1")
    ]
    assert all("nodeName" not in each.manifest["spec"] for each in trace.arrivals())


def test_an_export_in_json_is_the_same(tmp_path: Path) -> None:
    document = yaml.load((EXAMPLES / "export.yaml").read_text(), Loader=yaml.BaseLoader)
    document["priorityClasses"][0]["value"] = 1000
    (tmp_path / "export.json").write_text(json.dumps(document))
    assert list(load_trace(tmp_path / "export.json").objects()) == list(
        load_trace(EXAMPLES / "export.yaml").objects()
    )


def test_an_export_with_something_broken(tmp_path: Path) -> None:
    file = tmp_path / "export.yaml"
    file.write_text("nodes:\n- metadata: {name: a}\n- {}\n- metadata: {name: b}\npods: null\n")
    with pytest.raises(ConfigError, match=r"export.yaml:3: `nodes\[1\]` has no apiVersion, kind"):
        load_trace(file)
    assert kinds(load_trace(file, skip_broken=True)) == ["Node/a", "Node/b"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "nodes: {}\nsteps: []\n", "unknown field `steps`; known: namespaces"),
        ("a.yaml", "nodes: {a: b}\n", "`nodes` is not a list"),
        ("a.yaml", "steps: []\n", "is not a trace: expected `generate:`"),
        ("a.yaml", "[", "cannot be read"),
        ("a.yaml", "generate: {}\npods: []\n", "`pods` stands beside `generate`"),
        ("a.yaml", "generate:\n  arrivals:\n    kind: x\n", "a.yaml:3: generate, arrivals: `kind`"),
        (
            "a.yaml",
            "generate:\n  preset: web\n  arrivals:\n    count: 3\n    over: x\n",
            "a.yaml:5: generate (preset web), arrivals: `over`: `x` is not a time",
        ),
        (
            "a.yaml",
            "generate:\n  applications:\n  - name: a\n    cpu:\n      uniform: [1, x]\n",
            "a.yaml:5: generate, applications[0], cpu: `uniform`: `x` is not an amount",
        ),
        ("a.json", "{", "is not JSON: "),
        ("a.json", "{} {}", "is not JSON: "),
        ("a.txt", "", "its ending `.txt` is none of .csv, .jsonl, .yaml and .json"),
        ("a", "", "its name has none of the endings .csv, .jsonl, .yaml and .json"),
    ],
)
def test_what_is_no_trace(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_trace(tmp_path / name)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/{name}")


@pytest.mark.parametrize("name", ["nope", "x" * 300])
def test_a_file_that_does_not_exist_has_no_wrong_ending(tmp_path: Path, name: str) -> None:
    for nodes in (None, tmp_path / name):
        file = tmp_path / name if nodes is None else EXAMPLES / "pods.csv"
        with pytest.raises(ConfigError) as caught:
            load_trace(file, nodes=nodes)
        assert str(caught.value) == f"{tmp_path / name}: no such file. Fix: correct the path"


def test_a_description() -> None:
    trace = load_trace(EXAMPLES / "mixed.yaml")
    assert (trace.pods, trace.nodes) == (612, 14)
    assert trace.sources == (f"{EXAMPLES}/mixed.yaml (seed 7)",)
    assert list(trace.events()) != list(load_trace(EXAMPLES / "mixed.yaml", seed=8).events())


def test_nodes_of_one_file_under_the_pods_of_another() -> None:
    trace = load_trace(EXAMPLES / "pods.csv", nodes=EXAMPLES / "nodes.csv")
    assert (trace.pods, trace.nodes, trace.reading.read) == (28, 6, 9)
    assert trace.sources == (str(EXAMPLES / "nodes.csv"), str(EXAMPLES / "pods.csv"))
    # Of another trace only the cluster is taken.
    trace = load_trace(EXAMPLES / "pods.csv", nodes=EXAMPLES / "mixed.yaml")
    assert (trace.pods, trace.nodes) == (28, 14)
    assert all(isinstance(event, Arrival) for event in trace.events())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": "alibaba-gpu-2023-pod", "file": "export.yaml"}, "columns are for CSV files"),
        (
            {"nodes": EXAMPLES / "nodes.csv", "node_columns": "azure-v1-vmtable"},
            "layout azure-v1-vmtable is one of pods, not of nodes",
        ),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    file = EXAMPLES / options.pop("file", "pods.csv")
    with pytest.raises(ConfigError, match=message):
        load_trace(file, **options)


def test_combined_traces_keep_the_order_of_time() -> None:
    def trace(*moments: float) -> Trace:
        return Trace(
            ("test",),
            make_events=lambda: iter([Disruption(at, "fail", f"n{at}") for at in moments]),
            reading=ReadCounts(read=1, broken=1),
        )

    made = combined(trace(1.0, 3.0), trace(2.0, 3.0), trace())
    assert [event.at for event in made.events()] == [1.0, 2.0, 3.0, 3.0]
    assert made.reading == ReadCounts(read=3, broken=3)


_POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty. Fix: give manifests of nodes, or a trace"),
        (json.dumps({"pods": [_POD], "nodes": []}), "has no node. Fix: give manifests of nodes"),
        (json.dumps(_POD), "object 1 is a Pod. Fix: give nodes"),
    ],
    ids=["empty", "only pods", "a pod"],
)
def test_a_file_without_nodes_in_place_of_nodes(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(problem)) as caught:
        load_trace(EXAMPLES / "pods.csv", nodes=file)
    assert str(caught.value).startswith(str(file))
