"""Files are read as upstream reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from stowplan.errors import ConfigError
from stowplan.workloads.fields import seconds
from stowplan.workloads.kinds import resource_of
from stowplan.workloads.load import find_performance_config, read_workloads, select
from stowplan.workloads.model import (
    AllocResourceClaims,
    Barrier,
    Churn,
    ChurnMode,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    CreateResourceDriver,
    DeletePods,
    NodeAllocatable,
    NodeLabels,
    Sleep,
    Stage,
    StartCollectingMetrics,
    StopCollectingMetrics,
    UniqueNodeLabel,
    UpdateAny,
    Workload,
)
from stowplan.workloads.operations import OPCODES

EXAMPLE = Path(__file__).parents[3] / "examples" / "workloads" / "shop.yaml"


def test_parameters_namespaces_and_default_templates_are_resolved(
    read: Callable[..., Workload], folder: Path
) -> None:
    workload = read(
        """
        - opcode: createNodes
          countParam: $nodes
        - opcode: createPods
          count: 3
        - Opcode: createPods
          CountParam: $pods
          namespace: own
          podTemplatePath: numbered-pod.yaml
          collectMetrics: true
        """,
        params="{nodes: 5, pods: 4}",
        more="defaultPodTemplatePath: pod.yaml",
    )
    nodes, some, measured = workload.operations
    assert nodes == CreateNodes(5, "node-0-")
    assert isinstance(some, CreatePods)
    assert isinstance(measured, CreatePods)
    assert (some.count, some.namespace, some.collect_metrics) == (3, "namespace-1", False)
    assert (measured.count, measured.namespace, measured.collect_metrics) == (4, "own", True)
    assert some.template is not None
    assert some.template.path == folder / "pod.yaml"
    assert measured.template is not None
    assert measured.template.path == folder / "numbered-pod.yaml"
    assert (workload.title, workload.nodes, workload.pods) == ("Test/one", 5, 7)
    assert workload.measures
    assert workload.params == {"nodes": 5, "pods": 4}


def test_node_strategies(read: Callable[..., Workload]) -> None:
    workload = read(
        """
        - opcode: createNodes
          count: 1
          nodeTemplatePath: node.yaml
          nodeAllocatableStrategy:
            nodeAllocatable: {disks: "39"}
            csiNodeAllocatable: {d.example: {count: 39}, endless.example: {}}
            migratedPlugins: [kubernetes.io/aws-ebs]
        - opcode: createNodes
          count: 1
          labelNodePrepareStrategy: {labelKey: zone, labelValues: [a, b]}
        - opcode: createNodes
          count: 1
          uniqueNodeLabelStrategy: {labelKey: rack}
        """
    )
    strategies = [each.strategy for each in workload.operations if isinstance(each, CreateNodes)]
    assert strategies == [
        NodeAllocatable(
            {"disks": "39"}, {"d.example": 39, "endless.example": None}, ("kubernetes.io/aws-ebs",)
        ),
        NodeLabels("zone", ("a", "b")),
        UniqueNodeLabel("rack"),
    ]


def test_pod_sets_become_one_operation_each_and_shift_those_behind(
    read: Callable[..., Workload],
) -> None:
    workload = read(
        """
        - opcode: createPodSets
          countParam: $sets
          namespacePrefix: init
          createPodsOp: {opcode: createPods, countParam: $each, podTemplatePath: pod.yaml}
        - opcode: createPods
          count: 1
        """,
        params="{sets: 3, each: 2}",
    )
    pods = [each for each in workload.operations if isinstance(each, CreatePods)]
    assert [(each.namespace, each.count) for each in pods] == [
        ("init-0", 2),
        ("init-1", 2),
        ("init-2", 2),
        ("namespace-3", 1),
    ]


def test_the_other_opcodes(read: Callable[..., Workload]) -> None:
    workload = read(
        """
        - {opcode: createNamespaces, prefix: team, count: 2, namespaceTemplatePath: namespace.yaml}
        - {opcode: createAny, templatePath: service.yaml, namespace: a}
        - {opcode: createAny, templatePath: node.yaml, countParam: $some}
        - {opcode: updateAny, templatePath: numbered-pod.yaml, namespace: a, countParam: $some,
           updatePerSecond: 100, subresources: [resize]}
        - {opcode: deletePods, namespace: a, labelSelector: {app: web}, deletePodsPerSecond: 50,
           skipWaitToCompletion: true}
        - {opcode: churn, mode: recreate, number: 2, templatePaths: [node.yaml, service.yaml]}
        - {opcode: churn, mode: create, namespace: a, templatePaths: [pod.yaml],
           intervalMilliseconds: 200}
        - {opcode: barrier, namespaces: [a], labelSelector: {app: web},
           stageRequirement: Attempted}
        - {opcode: barrier}
        - {opcode: sleep, durationParam: $pause}
        - {opcode: sleep, duration: 1m30s}
        - {opcode: startCollectingMetrics, name: m, namespaces: [a], labelSelector: {app: web}}
        - {opcode: stopCollectingMetrics}
        - {opcode: createPods, count: 2, steadyStateParam: $steady, durationParam: $pause}
        """,
        params="{some: 2, pause: 500ms, steady: true}",
    )
    made = workload.operations
    assert isinstance(made[0], CreateNamespaces)
    assert (made[0].prefix, made[0].count) == ("team", 2)
    assert isinstance(made[1], CreateAny)
    assert (made[1].count, made[1].namespace) == (1, "a")
    assert isinstance(made[2], CreateAny)
    assert (made[2].count, made[2].namespace) == (2, "")
    assert isinstance(made[3], UpdateAny)
    assert (made[3].count, made[3].per_second, made[3].subresource) == (2, 100, "resize")
    assert made[4] == DeletePods("a", {"app": "web"}, 50, skip_wait=True)
    assert isinstance(made[5], Churn)
    assert (made[5].mode, made[5].number, made[5].interval_s) == (ChurnMode.RECREATE, 2, 0.5)
    assert made[5].namespace == "namespace-5"
    assert isinstance(made[6], Churn)
    assert (made[6].mode, made[6].number, made[6].interval_s) == (ChurnMode.CREATE, 0, 0.2)
    assert made[7] == Barrier(("a",), {"app": "web"}, Stage.ATTEMPTED)
    assert made[8] == Barrier((), {}, Stage.SCHEDULED)
    assert made[9:11] == (Sleep(0.5), Sleep(90.0))
    assert made[11:13] == (
        StartCollectingMetrics("m", ("a",), {"app": "web"}),
        StopCollectingMetrics(),
    )
    assert isinstance(made[13], CreatePods)
    assert made[13].steady_state_s == 0.5


def test_gates_labels_and_thresholds_of_test_and_workload_come_together(folder: Path) -> None:
    file = folder / "performance-config.yaml"
    (folder / "scheduler.yaml").write_text("{}\n")
    file.write_text(
        dedent(
            """
            - name: Test
              featureGates: {A: true, B: true}
              labels: [performance]
              schedulerConfigPath: scheduler.yaml
              defaultThresholdMetricSelector: {name: other_metric, dataBucket: Perc99}
              workloadTemplate:
              - {opcode: createPods, count: 1, collectMetrics: true}
              workloads:
              - {name: hints, featureGates: {B: false}, labels: [short], threshold: 270}
              - name: none
                featureGates: {SchedulerQueueingHints: false}
                threshold: {misc: 10, other: 20}
              - {name: batching, featureGates: {OpportunisticBatching: true}}
            """
        )
    )
    hints, without, batching = read_workloads(file)
    assert hints.feature_gates == {"A": True, "B": False}
    assert hints.labels == {"performance", "short"}
    assert (hints.threshold, hints.threshold_metric) == (270.0, "other_metric")
    assert hints.scheduler_config == folder / "scheduler.yaml"
    assert hints.emulated_version is None
    assert hints.scheduler_feature_gates["OpportunisticBatching"] is False
    assert (without.threshold, without.topic_thresholds) == (0.0, {"misc": 10, "other": 20})
    assert without.emulated_version == "1.33"
    assert "OpportunisticBatching" not in without.scheduler_feature_gates
    assert batching.scheduler_feature_gates["OpportunisticBatching"] is True


def test_an_older_version_of_a_kind_becomes_the_one_that_is_served(
    read: Callable[..., Workload], folder: Path
) -> None:
    (folder / "rule.yaml").write_text(
        "apiVersion: resource.k8s.io/v1alpha3\nkind: DeviceTaintRule\nmetadata: {name: a}\n"
    )
    (operation,) = read("- {opcode: createAny, templatePath: rule.yaml}").operations
    assert isinstance(operation, CreateAny)
    assert resource_of(operation.template).api_version == "resource.k8s.io/v1beta2"


def test_opcodes_of_dynamic_resource_allocation(read: Callable[..., Workload]) -> None:
    workload = read(
        """
        - {opcode: createResourceDriver, driverName: d, nodes: x-*, maxClaimsPerNodeParam: $n}
        - {opcode: createAny, templatePath: claim-resource.yaml, namespace: a}
        - {opcode: allocResourceClaims, namespace: a}
        """,
        params="{n: 3}",
    )
    assert workload.has_devices
    driver, claims, allocation = workload.operations
    assert driver == CreateResourceDriver("d", "x-*", 3)
    assert isinstance(claims, CreateAny)
    assert allocation == AllocResourceClaims("a")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        read_workloads(tmp_path / "none.yaml")
    assert "none.yaml: cannot be read" in str(refused.value)


def test_our_example_is_read() -> None:
    titles = [(each.title, each.nodes, each.pods) for each in read_workloads(EXAMPLE)]
    assert titles == [
        ("Shop/small", 6, 33),
        ("Shop/500Nodes", 500, 2050),
        ("BiggerNode/small", 6, 5),
        ("BiggerNode/1000Pods", 1001, 1000),
    ]


@pytest.mark.parametrize(
    ("pattern", "labels", "titles"),
    [
        ("Shop/small", (), ["Shop/small"]),
        ("Shop", (), ["Shop/small", "Shop/500Nodes"]),
        ("small", (), ["Shop/small", "BiggerNode/small"]),
        ("*Pods", (), ["BiggerNode/1000Pods"]),
        ("*", ("short",), ["Shop/small", "BiggerNode/small"]),
        ("*", ("-short",), ["Shop/500Nodes", "BiggerNode/1000Pods"]),
        ("B*", ("+short", ""), ["BiggerNode/small"]),
    ],
)
def test_select(pattern: str, labels: tuple[str, ...], titles: list[str]) -> None:
    chosen = select(read_workloads(EXAMPLE), pattern, labels=labels)
    assert [each.title for each in chosen] == titles


def test_select_says_what_there_is() -> None:
    workloads = read_workloads(EXAMPLE)
    with pytest.raises(ConfigError, match="no workload is called Shop/smal; there are Shop/small"):
        select(workloads, "Shop/smal")
    with pytest.raises(ConfigError, match=r"there are Shop/small, .* and 1 more$"):
        select(workloads, "nothing")
    with pytest.raises(ConfigError, match=r"no workload of Shop\* has the labels performance"):
        select(workloads, "Shop*", labels=["performance"])


def test_upstream_files_are_found_by_name_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for release in ("1.36.3", "1.36.10", "1.37.0-rc.1", "1.37.0"):
        module = tmp_path / "mod" / "k8s.io" / f"kubernetes@v{release}"
        topic = module / "test" / "integration" / "scheduler_perf" / "misc"
        topic.mkdir(parents=True)
        (topic / "performance-config.yaml").write_text("[]")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "mod"))
    monkeypatch.setenv("GOPATH", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    found = find_performance_config("misc")
    assert found.parts[-6] == "kubernetes@v1.37.0"
    assert find_performance_config(str(found)) == found
    assert find_performance_config(str(found.parent)) == found
    with pytest.raises(ConfigError, match=r"neither a file nor one of .* which are misc"):
        find_performance_config("mics")
    with pytest.raises(ConfigError, match=r"none\.yaml: there is no such file"):
        find_performance_config("none.yaml")


def test_without_the_module_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOMODCACHE", raising=False)
    monkeypatch.setenv("GOPATH", str(tmp_path / "gopath"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(ConfigError, match="`make controlplane` fetches them") as refused:
        find_performance_config("misc")
    assert str(tmp_path / "gopath" / "pkg" / "mod") in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0.0), ("10s", 10.0), ("1m30s", 90.0), ("500ms", 0.5), ("1.5h", 5400.0), (".5s", 0.5)],
)
def test_durations(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "5", "s", "-1s", "1 s", "10sec"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        seconds(text)


def test_the_guide_names_every_opcode_and_its_example_is_read(tmp_path: Path) -> None:
    guide = (EXAMPLE.parents[2] / "docs" / "workloads.md").read_text()
    for opcode, (fields, _) in OPCODES.items():
        assert f"`{opcode}`" in guide
        for field in fields:
            assert f"`{field}`" in guide, f"{field} of {opcode}"
    example = guide.partition("```yaml\n")[2].partition("```")[0]
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "web.yaml").write_text("{apiVersion: v1, kind: Pod}")
    (tmp_path / "example.yaml").write_text(example)
    titles = [each.title for each in read_workloads(tmp_path / "example.yaml")]
    assert titles == ["Basic/small", "Basic/5000Nodes"]
