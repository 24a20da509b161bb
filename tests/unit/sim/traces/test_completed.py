"""Recorded pods are made so that an API server takes them again."""

from __future__ import annotations

from typing import Any

from stowplan.sim.traces.completed import completed


def term(*keys: str, **more: Any) -> dict[str, Any]:
    expressions = [{"key": key, "operator": "In", "values": ["1"]} for key in keys]
    return {"topologyKey": "zone", "labelSelector": {"matchExpressions": expressions}, **more}


def test_label_keys_that_the_server_merged_into_the_selector_are_not_given_again() -> None:
    spec = {
        "topologySpreadConstraints": [term("rev", matchLabelKeys=["rev", "other"])],
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    term("rev", matchLabelKeys=["rev"], mismatchLabelKeys=["rev"])
                ]
            }
        },
    }
    made = completed({"kind": "Pod", "spec": spec})["spec"]
    (constraint,) = made["topologySpreadConstraints"]
    assert constraint == {"maxSkew": 1, **term("rev"), "matchLabelKeys": ["other"]}
    (near,) = made["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert near == term("rev")


def test_disks_have_what_the_server_requires() -> None:
    volumes = [{"name": "a"}, {"name": "b", "iscsi": {"iqn": "iqn.2001-04.com.example:a"}}]
    made = completed({"kind": "Pod", "spec": {"volumes": volumes}})["spec"]["volumes"]
    assert made[0] == {"name": "a", "emptyDir": {}}
    assert made[1]["iscsi"]["iqn"] == "iqn.2001-04.com.example:a"
    assert made[1]["iscsi"]["targetPortal"]


def test_pods_have_the_class_of_their_number() -> None:
    """Classes are not recorded, and an API server accepts no number without one."""
    named = {
        0: "priority-0",
        -5: "priority-minus-5",
        1000: "priority-1000",
        2_000_001_000: "system-node-critical",
    }
    for value, name in named.items():
        spec = {"priority": value, "priorityClassName": "hidden"}
        assert completed({"kind": "Pod", "spec": spec})["spec"]["priorityClassName"] == name
    gentle = completed({"kind": "Pod", "spec": {"priority": 7, "preemptionPolicy": "Never"}})
    assert gentle["spec"]["priorityClassName"] == "priority-7-never"
    shy = completed({"kind": "Pod", "spec": {"preemptionPolicy": "Never"}})
    assert shy["spec"]["priorityClassName"] == "priority-0-never"
    assert "priorityClassName" not in completed({"kind": "Pod", "spec": {}})["spec"]


def test_deeply_nested_values_are_passed_on() -> None:
    deep: Any = {}
    for _ in range(5_000):
        deep = {"x": [deep]}
    made = completed({"kind": "Pod", "spec": {"affinity": {"podAffinity": {"x": deep}}}})
    assert made["spec"]["affinity"]["podAffinity"]["x"] is deep
