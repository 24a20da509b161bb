"""Expectations: what they find in a cluster, and in which words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.errors import ConfigError
from stowplan.sim.scenarios.actions import ObjectPattern
from stowplan.sim.scenarios.expectations import Expected, read_expected
from stowplan.sim.scenarios.facts import ClusterState
from stowplan.workloads.fields import read_yaml

Json = dict[str, Any]
Expect = Callable[[str], Expected]


@pytest.fixture
def expect(tmp_path: Path) -> Expect:
    def expect(text: str) -> Expected:
        file = tmp_path / "scenario.yaml"
        file.write_text(text)
        return read_expected(file, read_yaml(file), "step 1 (expect)")

    return expect


def pod(
    name: str,
    node: str = "",
    message: str = "",
    *,
    namespace: str = "default",
    phase: str = "",
    nominated: str = "",
    **labels: str,
) -> Json:
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    status = {"phase": phase or ("Running" if node else "Pending"), "nominatedNodeName": nominated}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"nodeName": node} if node else {},
        "status": status | ({"conditions": [condition]} if message else {}),
    }


def node(name: str, zone: str = "", *, ready: bool = True, closed: bool = False) -> Json:
    labels = {"kubernetes.io/hostname": name}
    if zone:
        labels["topology.kubernetes.io/zone"] = zone
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": True} if closed else {},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]},
    }


VIEW = ClusterState(
    pods=[
        pod("web-0", "n1", app="web"),
        pod("web-1", "n2", app="web"),
        pod("web-2", "", "0/3 nodes are available: 3 Insufficient cpu.", app="web"),
        pod("web-0", "n3", namespace="shop"),
        pod("done", "n1", phase="Succeeded"),
        pod("next", nominated="n2"),
    ],
    nodes=[node("n1", "a"), node("n2", "b"), node("n3", "b", ready=False), node("n4", closed=True)],
    preempted={"default/victim": "default/king"},
    objects={
        ObjectPattern("PersistentVolumeClaim", "data"): {"spec": {"volumeName": "v", "x": [1]}},
        ObjectPattern("PersistentVolume", "data"): None,
    },
    seen_pods={"default/victim": {}, "default/gone": {"app": "old"}, "shop/web-0": {}},
    seen_nodes=["n1", "n2", "n3", "n4", "n5"],
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{pod: web-0, on: n1}", "web-0 is on n1"),
        ("{pods: [web-0, web-1], on: [n1, n2]}", "web-0, web-1 are on one of n1, n2"),
        ("{pods: 'web-[01]', on: n*}", "web-[01] are on n*"),
        ("{pod: shop/web-0, on: n3}", "shop/web-0 is on n3"),
        ("{pods: {names: [web-0], namespace: shop}, on: n3}", "web-0 in shop is on n3"),
        ("{pod: web-0, notOn: n2}", "web-0 is not on n2"),
        ("{pod: web-2, notOn: n2}", "web-2 is not on n2"),
        ("{pod: web-2, pending: true}", "web-2 is pending"),
        ("{pod: web-2, pending: Insufficient cpu}", "web-2 is pending: Insufficient cpu"),
        ("{pods: [web-0, web-1], bound: true}", "web-0, web-1 are bound"),
        ("{pods: web-*, bound: 2}", "web-* are bound, 2 of them"),
        ("{pods: web-*, bound: {atLeast: 1}}", "web-* are bound, at least 1 of them"),
        ("{pods: gon*, bound: 0}", "gon* are bound, 0 of them"),
        ("{pods: web-*, count: 3}", "web-* are there, 3 of them"),
        ("{pods: web-*, count: {atLeast: 2, atMost: 3}}", "web-* are there, 2 to 3 of them"),
        ("{pods: {labels: {app: web}}, count: 3}", "app=web are there, 3 of them"),
        ("{pods: gon*, count: {atMost: 2}}", "gon* are there, at most 2 of them"),
        ("{pods: x-*, count: 0}", "x-* are there, 0 of them"),
        ("{pods: {labels: {app: old}}, gone: true}", "app=old are gone"),
        ("{pod: gone, gone: true}", "gone is gone"),
        ("{pod: done, phase: [Succeeded, Failed]}", "done is Succeeded or Failed"),
        ("{pod: next, nominated: n2}", "next is nominated to n2"),
        ("{pod: victim, preempted: true}", "victim is preempted"),
        ("{pod: victim, preempted: king, gone: true}", "victim is preempted by king and is gone"),
        (
            "{pods: [web-0, web-1], spread: zone}",
            "web-0, web-1 are spread over zone with a skew of at most 1",
        ),
        (
            "{pods: [web-0], spread: {over: hostname, maxSkew: 1}}",
            "web-0 is spread over hostname with a skew of at most 1",
        ),
        ("{pods: [web-0, web-1], apart: hostname}", "web-0, web-1 are apart by hostname"),
        ("{pods: [web-1, shop/web-0], together: zone}", "web-1, shop/web-0 are together by zone"),
        ("{node: n1, holds: [web-0]}", "n1 holds web-0"),
        ("{node: n1, holds: 1}", "n1 holds 1 pods"),
        ("{node: n4, holds: 0, unschedulable: true}", "n4 holds 0 pods and is unschedulable"),
        ("{node: n3, ready: false}", "n3 is not ready"),
        ("{node: n5, gone: true}", "n5 is gone"),
        ("{object: pvc/data, has: {spec: {volumeName: v}}}", "persistentvolumeclaim/data has"),
        ("{object: pvc/data, has: {spec: {x: [1]}}}", "persistentvolumeclaim/data has"),
        ("{object: pv/data, gone: true}", "persistentvolume/data is gone"),
        ("{pod: web-0, on: n1, text: as I like it}", "as I like it"),
    ],
)
def test_what_is_so(expect: Expect, text: str, words: str) -> None:
    expected = expect(text)
    finding = expected.look(VIEW)
    assert finding.is_met, finding.found
    assert str(expected).startswith(words)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{pod: web-0, on: n2}", "on n1"),
        ("{pod: web-2, on: n1}", "pending: 0/3 nodes are available: 3 Insufficient cpu."),
        ("{pods: [web-0, web-1], on: n3}", "web-0 on n1; web-1 on n2"),
        ("{pod: web-0, notOn: [n1, n2]}", "on n1"),
        ("{pod: nobody, on: n1}", "there is no such pod"),
        ("{pod: web-1, pending: true}", "on n2"),
        ("{pod: web-2, pending: taint}", "pending: 0/3 nodes are available: 3 Insufficient cpu."),
        ("{pod: next, bound: true}", "pending"),
        ("{pods: web-*, bound: 3}", "2 of 3 are bound"),
        ("{pods: web-*, count: 2}", "there are 3"),
        ("{pod: web-0, gone: true}", "still there: on n1"),
        ("{pod: web-0, phase: Pending}", "Running"),
        ("{pod: web-0, nominated: n2}", "nowhere"),
        ("{pod: web-0, preempted: true}", "no pod preempted it"),
        ("{pod: victim, preempted: queen}", "victim by king"),
        ("{pods: web-*, spread: zone}", "pending: 0/3 nodes are available"),
        ("{pods: [web-1, shop/web-0], spread: zone}", "a: 0, b: 2"),
        ("{pods: [web-0], spread: nothing}", "on n1"),
        ("{pods: [web-1, shop/web-0], apart: zone}", "b: 2"),
        ("{pods: [web-0, web-1], together: zone}", "a: 1, b: 1"),
        ("{node: n1, holds: []}", "it holds web-0"),
        ("{node: n1, holds: 2}", "it holds 1"),
        ("{node: n1, ready: false}", "it is ready"),
        ("{node: n4, unschedulable: false}", "it is unschedulable"),
        ("{node: n5, ready: true}", "there is no such node"),
        ("{node: n1, gone: true}", "it is there"),
        ("{object: pvc/data, gone: true}", "it is there"),
        ("{object: pvc/none, has: {a: 1}}", "there never was such an object"),
        ("{object: pv/data, has: {a: 1}}", "there is no such object"),
        ("{object: pvc/none, gone: true}", "there never was such an object"),
        ("{pod: nobody, gone: true}", "there never was such a pod"),
        ("{pods: {labels: {app: new}}, gone: true}", "there never was such a pod"),
        ("{pods: x-*, bound: 0}", "there never was such a pod"),
        ("{pods: x-*, count: {atMost: 2}}", "there never was such a pod"),
        ("{pod: web-0, notOn: n9}", "there never was a node n9"),
        ("{node: n9, gone: true}", "there never was such a node"),
        ("{object: pvc/data, has: {spec: {volumeName: w}}}", "spec.volumeName is v"),
        ("{object: pvc/data, has: {spec: {x: [2]}}}", "spec.x[0] is 1"),
        ("{object: pvc/data, has: {status: {phase: Bound}}}", "status is None"),
    ],
)
def test_what_is_not_so_is_told(expect: Expect, text: str, found: str) -> None:
    finding = expect(text).look(VIEW)
    assert not finding.is_met
    assert found in finding.found


def test_of_many_pods_a_few_are_named(expect: Expect) -> None:
    view = ClusterState([pod(f"p{number}") for number in range(8)], [])
    found = expect("{pods: p*, bound: true}").look(view).found
    assert found.endswith("p4 pending; and 3 more")


def test_pods_that_name_no_namespace_are_the_scenario_s(expect: Expect) -> None:
    view = ClusterState([pod("a", "n1", namespace="mine"), pod("a", "n2")], [], prefix="mine")
    assert expect("{pod: a, on: n1}").look(view).is_met
    assert expect("{pods: {labels: {}}, count: 1}").look(view).is_met


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{on: n1}", "names no subject"),
        ("5", "expected a mapping, got a whole number"),
        ("{pod: a}", "expects nothing: write one of on, notOn, pending"),
        ("{node: a}", "expects nothing: write one of holds, ready"),
        ("{pod: a, pods: b, on: n1}", "`pod` or `pods`, not both"),
        ("{pods: 5, on: n1}", "`pods`: write a name, a list of names, or labels"),
        ("{pods: {label: {a: b}}, on: n1}", "unknown field `label`; did you mean `labels`?"),
        ("{pod: a, node: n1}", "unknown field `node`"),
        ("{pod: a, pending: 5}", "`pending` must be true or a text"),
        ("{pod: a, gone: false}", "`gone` can only be true"),
        ("{pods: a, count: -1}", "cannot be negative"),
        ("{pods: a, count: {}}", "write `atLeast`, `atMost` or both"),
        ("{pods: a, spread: {}}", "`over` must be given"),
        ("{pods: {labels: {a: b}}, preempted: true}", "victims are gone with their labels"),
        ("{object: pvc/data}", "write `has: {...}` or `gone: true`"),
        ("{object: pvc/d*, gone: true}", "one object, not a pattern"),
        ("{object: pvc/data, has: 5}", "`has` must be a part of the object"),
    ],
)
def test_mistakes(expect: Expect, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        expect(text)
    assert message in str(refused.value)
    assert "step 1 (expect)" in str(refused.value)


def test_all_words_are_documented() -> None:
    """docs/scenarios.md has every field of an expectation in its tables."""
    from stowplan.sim.scenarios import expectations

    text = (Path(__file__).parents[4] / "docs" / "scenarios.md").read_text()
    for fields in expectations._SUBJECTS.values():
        for field in fields:
            assert f"`{field}`" in text, field
    examples = text.split("```yaml\n")[1:]
    assert all(yaml.safe_load(each.partition("```")[0]) for each in examples)
