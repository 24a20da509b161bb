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
