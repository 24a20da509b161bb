"""Fixes are the smallest: none has a step that the pod does not need."""

from __future__ import annotations

from stowplan.clock import VirtualClock
from stowplan.explain.fixes import find_fixes
from stowplan.explain.sources import find_pod
from tests.unit.explain.cases import explainer_of
from tests.unit.explain.manifests import (
    CORDON,
    GPU_TAINT,
    WITH_GPUS,
    ZONE,
    Json,
    a_node,
    a_pod,
    device_class,
    gpu_claim,
    gpus,
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


# Devices


def test_a_device_class_that_is_missing_can_be_created() -> None:
    found = fixes_of(a_node("a"), gpus("a", "A100"), gpu_claim(), a_pod(**WITH_GPUS))
    text = "create the DeviceClass gpu.example.com, with selectors for the devices it means"
    assert found == [("DeviceClass", text)]


def test_a_claim_can_tolerate_the_taints_of_devices() -> None:
    tainted = gpus("a", "A100")
    tainted["spec"]["devices"][0]["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
    found = fixes_of(a_node("a"), device_class(), tainted, gpu_claim(), a_pod(**WITH_GPUS))
    text = "make the claim gpus anew, its request gpu with a toleration of the devices' taint"
    assert found == [("Claim", f"{text} broken:NoSchedule")]


def test_the_pods_that_free_enough_devices_are_named_and_no_more() -> None:
    jobs = [a_pod(f"job-{n}", nodeName="a", priority=n) for n in (0, 1)]
    held = [gpu_claim(f"job-{n}", given=f"a/gpu-{n}") for n in (0, 1)]
    objects = (a_node("a"), device_class(), gpus("a", "A100", "A100"), *held, *jobs, gpu_claim())
    (kind, text), *others = fixes_of(*objects, a_pod(priority=1, **WITH_GPUS))
    assert (kind, text) == ("Eviction", "evict the pod shop/job-0 from a, which frees devices")
    assert not others
    of_less = fixes_of(*objects, a_pod(priority=-1, **WITH_GPUS))
    assert of_less == [], "pods of higher priority are not evicted for it"
