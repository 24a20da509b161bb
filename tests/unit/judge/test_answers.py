"""Questions and answers: what objects mean, and what an answer holds."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from stowplan.framework.plugin import Plugin, PreFilterResult
from stowplan.framework.status import Status, unschedulable
from stowplan.judge import Judge, answer
from stowplan.plugins.registry import in_tree_registry
from stowplan.testing import as_manifest
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod
from tests.unit.judge.malformed import GOOD

Json: TypeAlias = dict[str, Any]

NODES = [as_manifest(make_node("a", cpu=4)), as_manifest(make_node("b", cpu=1))]
POD = as_manifest(make_pod("p", cpu=2))
TOO_SMALL = {
    "code": "UnschedulableAndUnresolvable",
    "plugin": "NodeResourcesFit",
    "reasons": ["Insufficient cpu"],
}
FULL = {**TOO_SMALL, "code": "Unschedulable"}


def question(*objects: Json, pod: Json = POD, **more: Any) -> Json:
    return {"id": "q", "objects": [*NODES, *objects], "pod": pod, **more}


def enabled(*names: str) -> Json:
    """A configuration with further plugins."""
    plugins = {"multiPoint": {"enabled": [{"name": name} for name in names]}}
    return {"profiles": [{"plugins": plugins}]}


# What an answer holds


def test_every_node_is_told_and_a_single_feasible_one_is_scored() -> None:
    said = answer(question())
    assert said["id"] == "q"
    assert said["nodes"] == {"a": {"code": "Success"}, "b": TOO_SMALL}
    assert said["scores"].keys() == {"a"}
    assert said["totals"] == {"a": sum(said["scores"]["a"].values())}
    assert said["best"] == ["a"]


def test_scores_are_weighted_and_whoever_skips_is_absent() -> None:
    scores = answer(question())["scores"]["a"]
    assert scores["TaintToleration"] == 300
    assert "NodeAffinity" not in scores, "the pod prefers no node"


def test_all_of_the_best_are_named() -> None:
    twins = [as_manifest(make_node(name)) for name in ("y", "x")]
    assert answer({"objects": twins, "pod": POD})["best"] == ["x", "y"]


def test_nothing_feasible_means_no_scores() -> None:
    said = answer(question(pod=as_manifest(make_pod("p", cpu=9))))
    assert said == {"id": "q", "nodes": {"a": TOO_SMALL, "b": TOO_SMALL}}


def test_no_nodes_at_all() -> None:
    assert answer({"objects": [], "pod": POD}) == {"id": 1, "nodes": {}}


def test_the_first_filter_that_fails_speaks() -> None:
    node = as_manifest(make_node("c", cpu=0, unschedulable=True, taints=["k:NoSchedule"]))
    assert answer(question(node))["nodes"]["c"]["plugin"] == "NodeUnschedulable"


def test_every_node_is_looked_at_whatever_the_percentage() -> None:
    nodes = [as_manifest(make_node(f"n{number}")) for number in range(150)]
    config = {"percentageOfNodesToScore": 5}
    assert len(answer({"objects": nodes, "pod": POD, "config": config})["scores"]) == 150


def test_the_pods_own_nomination_is_no_short_cut() -> None:
    pod = as_manifest(make_pod("p", nominated_node="a"))
    assert answer(question(pod=pod))["scores"].keys() == {"a", "b"}


class _OnlyA(Plugin):
    name = "OnlyA"

    def pre_filter(self, _cycle: object) -> PreFilterResult:
        return PreFilterResult(frozenset({"a", "elsewhere"}))


class _OnlyB(Plugin):
    name = "OnlyB"

    def pre_filter(self, _cycle: object) -> PreFilterResult:
        return PreFilterResult(frozenset({"b"}))


class _Nowhere(Plugin):
    name = "Nowhere"

    def pre_filter(self, _cycle: object) -> Status:
        return unschedulable("not today", "nor tomorrow")


class _Broken(Plugin):
    name = "Broken"

    def filter(self, _pod: object, _node: object) -> bool:
        raise RuntimeError("out of order")


@pytest.fixture
def judge() -> Judge:
    registry = in_tree_registry()
    for plugin in (_OnlyA, _OnlyB, _Nowhere, _Broken):
        registry.register(plugin)
    return Judge(registry=registry)


def test_nodes_that_prefilter_leaves_out(judge: Judge) -> None:
    said = judge.answer(question(config=enabled("OnlyA")))
    assert said["nodes"] == {"a": {"code": "Success"}, "b": {"code": "ExcludedByPreFilter"}}
    assert said["best"] == ["a"]


def test_a_pod_that_prefilter_rejects(judge: Judge) -> None:
    said = judge.answer(question(config=enabled("Nowhere")))
    assert said == {
        "id": "q",
        "prefilter": {
            "code": "Unschedulable",
            "plugin": "Nowhere",
            "reasons": ["not today", "nor tomorrow"],
        },
        "nodes": {},
    }


def test_plugins_that_leave_no_node_to_each_other(judge: Judge) -> None:
    rejection = judge.answer(question(config=enabled("OnlyA", "OnlyB")))["prefilter"]
    assert rejection == {
        "code": "UnschedulableAndUnresolvable",
        "plugin": "",
        "reasons": ["node(s) didn't satisfy plugin(s) [OnlyA OnlyB] simultaneously"],
    }


def test_a_plugin_that_breaks_is_an_error(judge: Judge) -> None:
    said = judge.answer(question(config=enabled("Broken")))
    error = said.pop("error")
    assert said == {"id": "q"}
    assert error.startswith('running "Broken" filter plugin: RuntimeError: out of order (tests/')


# What objects mean


def test_standing_pods_take_room_and_finished_ones_none() -> None:
    standing = make_pod("s", cpu=3, node="a")
    assert answer(question(as_manifest(standing)))["nodes"]["a"] == FULL
    for phase in ("Succeeded", "Failed"):
        finished = as_manifest(make_pod("s", cpu=3, node="a", phase=phase))
        assert answer(question(finished))["nodes"]["a"] == {"code": "Success"}


def test_pending_pods_count_only_where_they_are_nominated() -> None:
    pending = as_manifest(make_pod("s", cpu=3))
    assert answer(question(pending))["nodes"]["a"] == {"code": "Success"}
    nominated = as_manifest(make_pod("s", cpu=3, nominated_node="a"))
    assert answer(question(nominated))["nodes"]["a"] == FULL
    less_important = as_manifest(make_pod("s", cpu=3, nominated_node="a", priority=-1))
    assert answer(question(less_important))["nodes"]["a"] == {"code": "Success"}


def test_a_pod_does_not_stand_in_its_own_way() -> None:
    asked = as_manifest(make_pod("p", cpu=3, nominated_node="a"))
    assert answer(question(asked, pod=asked))["nodes"]["a"] == {"code": "Success"}
    anonymous = {**asked, "metadata": {"name": "p"}}
    assert answer(question(asked, pod=anonymous))["nodes"]["a"] == {"code": "Success"}


def test_lists_are_taken_apart() -> None:
    whole = {"apiVersion": "v1", "kind": "List", "items": NODES}
    of_nodes = {
        "apiVersion": "v1",
        "kind": "NodeList",
        "items": [{key: node[key] for key in ("metadata", "spec", "status")} for node in NODES],
    }
    expected = answer(question())
    for given in (whole, of_nodes):
        assert answer({"id": "q", "objects": [given], "pod": POD}) == expected


@pytest.mark.parametrize(
    "unread",
    [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "eA=="}},
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}},
        {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "s"}},
        {"apiVersion": "example.com/v1", "kind": "Boat"},
    ],
    ids=lambda obj: obj["kind"],
)
def test_kinds_that_no_plugin_reads_are_ignored(unread: Json) -> None:
    assert answer(question(unread)) == answer(question())


@pytest.mark.parametrize("kind", GOOD)
def test_every_kind_that_plugins_read_is_taken(kind: str) -> None:
    assert "error" not in answer({"objects": [GOOD[kind]], "pod": POD})


def test_names_that_the_server_would_make_up() -> None:
    standing = as_manifest(make_pod("x", cpu=2, node="a"))
    nameless = {**standing, "metadata": {"generateName": "web-"}}
    assert answer(question(nameless))["nodes"]["a"] == {"code": "Success"}
    assert answer(question(nameless, nameless))["nodes"]["a"] == FULL, "two pods"


def test_pods_without_uid_and_namespace_are_told_apart() -> None:
    one = {**as_manifest(make_pod("x", cpu=2, node="a")), "metadata": {"name": "one"}}
    two = {**one, "metadata": {"name": "two"}}
    assert answer(question(one, two))["nodes"]["a"] == FULL
    assert "objects[3] has the same name" not in answer(question(one, two)).get("error", "")
    again = {**one, "metadata": {"name": "one", "namespace": "default"}}
    assert "objects[2] has the same name" in answer(question(one, again))["error"]
    elsewhere = {**one, "metadata": {"name": "one", "namespace": "other"}}
    assert answer(question(one, elsewhere))["nodes"]["a"] == FULL


def test_null_is_nothing_as_in_go() -> None:
    pod: Json = {
        "metadata": {"name": "p", "labels": None, "annotations": {"a": None}},
        "spec": {
            "containers": [{"name": "c", "image": "i", "ports": None, "resources": None}],
            "nodeSelector": None,
            "tolerations": [],
            "affinity": {"nodeAffinity": None},
            "hostNetwork": None,
        },
        "status": None,
    }
    assert answer(question(pod=pod))["nodes"] == {
        "a": {"code": "Success"},
        "b": {"code": "Success"},
    }


def test_amounts_may_be_numbers() -> None:
    pod = as_manifest(make_pod("p"))
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": 2, "memory": 1.5e6}
    assert answer(question(pod=pod))["nodes"]["b"] == TOO_SMALL


def test_objects_may_go_unchecked() -> None:
    bad = question(pod={"metadata": {"name": "p"}, "spec": {"containers": []}})
    assert "spec.containers: Required value" in answer(bad)["error"]
    unchecked = Judge(check=False)
    assert "error" not in unchecked.answer(bad)
    assert "spec: json: cannot unmarshal" in unchecked.answer(question(pod={"spec": 1}))["error"]


def test_what_is_no_json_at_all() -> None:
    said = answer({"id": 3, "objects": [{1j}], "pod": POD})
    assert said["id"] == 3
    assert said["error"].startswith("is not JSON")


def test_lines_are_numbered_unless_they_have_an_id() -> None:
    judge = Judge()
    lines: list[Json] = [{"objects": []}, {"id": None}, {}]
    assert [judge.answer(line)["id"] for line in lines] == [1, None, 3]


def test_label_keys_are_merged_once() -> None:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["app"],
    }
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    pod = as_manifest(make_pod("p", labels={"app": "web"}, affinity={"podAffinity": rule}))
    assert "error" not in answer(question(pod=pod)), "it has a UID: the server has taken it"
    new = {**pod, "metadata": {"name": "p", "labels": {"app": "web"}}}
    assert "exists in both matchLabelKeys and labelSelector" in answer(question(pod=new))["error"]
