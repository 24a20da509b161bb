"""Fixes are the smallest: none has a step that the pod does not need."""

from __future__ import annotations

from stowplan.clock import VirtualClock
from stowplan.explain.fixes import find_fixes
from stowplan.explain.sources import find_pod
from tests.unit.explain.cases import explainer_of
from tests.unit.explain.manifests import (
    CORDON,
    GPU_TAINT,
    ZONE,
    Json,
    a_node,
    a_pod,
    required,
    term,
    zones,
)


def fixes_of(*objects: Json) -> list[tuple[str, str]]:
    """Kind and text of each fix."""
    explainer = explainer_of(objects)
    found = find_fixes(explainer, find_pod(explainer.cluster, "shop", "web"), VirtualClock())
    return [(fix.kind, fix.text) for fix in found]


def test_no_node_is_opened_for_a_pod_that_goes_to_another() -> None:
    found = fixes_of(
        a_node("big", cpu=5),
        a_node("other", cpu=4),
        a_node("cordoned", cpu=2, unschedulable=True, taints=[CORDON]),
        a_node("tainted", cpu=3, taints=[GPU_TAINT]),
        a_pod(cpu="100"),
    )
    assert found == [
        ("Request", "lower the cpu request of the container main from 100 to 5"),
        ("NewNode", "add a node like big, with 100 cpu"),
    ]


def test_a_combination_with_a_needless_part_is_no_fix() -> None:
    """Two evictions are shown, and a third with a toleration would do without that."""
    apart = required("podAntiAffinity", term({"app": "web"}, ZONE))
    standing = [a_pod(f"web-{n}", labels={"app": "web"}, nodeName=f"worker-{n}") for n in (1, 2, 3)]
    tainted = a_node("tainted", taints=[GPU_TAINT], labels={ZONE: "c"})
    found = fixes_of(*zones("a", "b", "c"), tainted, *standing, a_pod(affinity=apart))
    assert [kind for kind, _ in found] == ["PodAffinity", "Eviction", "Eviction"]


def test_a_combination_stays_where_both_parts_are_needed() -> None:
    found = fixes_of(a_node("tainted", cpu=3, taints=[GPU_TAINT]), a_pod(cpu="4"))
    assert found[0] == (
        "Request+Toleration",
        "lower the cpu request of the container main from 4 to 3 and tolerate the taint"
        " dedicated=gpu:NoSchedule",
    )
