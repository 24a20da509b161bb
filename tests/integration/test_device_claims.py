"""Claims of devices, on the embedded and on the real API server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from stowplan.lab.controlplane.api_access import ApiError
from tests.integration.target import Json, Target
from tests.waiting import wait_for

DEVICES = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DEVICES}/namespaces/default/resourceclaims"


@pytest.fixture
def devices(target: Target) -> Iterator[Target]:
    """A class of devices; claims and slices go with the test."""
    target.create_nodes("n1")
    create(target, f"{DEVICES}/deviceclasses", "gpu", {})
    yield target
    for path in (CLAIMS, f"{DEVICES}/resourceslices", f"{DEVICES}/deviceclasses"):
        wait_for(f"nothing at {path}", partial(clear, target, path))


def clear(target: Target, path: str) -> bool:
    """Delete all objects; True if there was none. Running schedulers may add a finalizer again."""
    items = target.api.get(path)["items"]
    for item in items:
        name = item["metadata"]["name"]
        try:
            if item["metadata"].get("finalizers"):
                target.api.patch(f"{path}/{name}", {"metadata": {"finalizers": None}})
            target.api.delete(f"{path}/{name}", grace_seconds=0)
        except ApiError as problem:
            if problem.status != 404:
                raise
    return not items


def create(target: Target, path: str, name: str, spec: Json) -> None:
    target.api.create(path, {"metadata": {"name": name}, "spec": spec})


def offer(target: Target, name: str, *devices: str | Json) -> None:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    listed = [{"name": each} if isinstance(each, str) else each for each in devices]
    spec = {"driver": "gpu.example.com", "nodeName": "n1", "pool": pool, "devices": listed}
    create(target, f"{DEVICES}/resourceslices", name, spec)


def claim(target: Target, *names: str, **exactly: Any) -> None:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu", **exactly}}]
    for name in names:
        create(target, CLAIMS, name, {"devices": {"requests": requests}})


def pod_with(target: Target, name: str, claim_name: str, **spec: Any) -> None:
    entry = {"name": "gpu", "resourceClaimName": claim_name}
    target.create_pods(name, resourceClaims=[entry], **spec)


def held(target: Target) -> dict[str, str]:
    """The device of every claim that has one."""
    found = {}
    for item in target.api.get(CLAIMS)["items"]:
        for result in item["status"].get("allocation", {}).get("devices", {}).get("results", ()):
            found[item["metadata"]["name"]] = result["device"]
    return found


def test_pods_get_devices_until_there_are_none_and_then_wait(devices: Target) -> None:
    target = devices
    offer(target, "pool", "gpu-0", "gpu-1")
    target.start()
    claim(target, "a", "b", "c")
    for name in ("a", "b"):
        pod_with(target, name, name)
    target.wait_bound("a", "b")
    assert sorted(held(target).values()) == ["gpu-0", "gpu-1"]
    for name in ("a", "b"):
        stored = target.api.get(f"{CLAIMS}/{name}")
        assert stored["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        (consumer,) = stored["status"]["reservedFor"]
        assert consumer["uid"] == target.pod(name)["metadata"]["uid"]
    pod_with(target, "c", "c")
    condition = target.wait_condition("c", "False")
    assert condition["message"].startswith("0/1 nodes are available: 1 cannot allocate all claims.")
    offer(target, "more", "gpu-2")
    target.wait_bound("c")
    assert held(target)["c"] == "gpu-2"


def test_a_pod_waits_for_its_claim(devices: Target) -> None:
    target = devices
    offer(target, "pool", "gpu-0")
    target.start()
    pod_with(target, "early", "late")
    target.create_pods("plain")
    target.wait_bound("plain")
    assert not target.node_of("early")
    claim(target, "late")
    target.wait_bound("early")


@pytest.mark.parametrize("what", ["devices", "capacity"])
def test_two_schedulers_give_nothing_away_twice(devices: Target, what: str) -> None:
    """Both are active, for pods of their own; there is enough for half of them."""
    target = devices
    names = [f"{owner}-{number}" for number in range(4) for owner in ("one", "two")]
    if what == "devices":
        offer(target, "pool", *(f"gpu-{number}" for number in range(4)))
        claim(target, *names)
    else:
        memory = {"memory": {"value": "4"}}
        offer(target, "pool", {"name": "x", "allowMultipleAllocations": True, "capacity": memory})
        claim(target, *names, capacity={"requests": {"memory": "1"}})
    for owner in ("one", "two"):
        config = target.config_file(f"profiles: [{{schedulerName: {owner}}}]\n")
        target.start("--config", str(config)).wait_until_scheduling()
    for name in names:
        pod_with(target, name, name, schedulerName=name.partition("-")[0])

    def four_are_bound() -> bool:
        return sum(bool(target.node_of(name)) for name in names) == 4

    wait_for("four pods to be bound", four_are_bound)
    bound = {name for name in names if target.node_of(name)}
    of_bound = sorted(device for name, device in held(target).items() if name in bound)
    assert of_bound == (
        ["x"] * 4 if what == "capacity" else [f"gpu-{number}" for number in range(4)]
    )


RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"


def serves_rules(target: Target) -> bool:
    try:
        target.api.get(RULES)
    except ApiError as problem:
        return problem.status != 404
    return True


def test_a_taint_rule_keeps_devices_from_pods_until_it_goes(devices: Target) -> None:
    """The real API server of these tests does not serve the kind; the embedded one does."""
    target = devices
    offer(target, "pool", "gpu-0")
    is_served = serves_rules(target)
    if is_served:
        create(target, RULES, "broken", {"taint": {"key": "broken", "effect": "NoSchedule"}})
    scheduler = target.start("--feature-gates", "DRADeviceTaintRules=true")
    claim(target, "a")
    pod_with(target, "a", "a")
    if is_served:
        condition = target.wait_condition("a", "False")
        assert "1 cannot allocate all claims" in condition["message"]
        target.api.delete(f"{RULES}/broken")
    target.wait_bound("a")
    told = scheduler.log.count("does not serve DeviceTaintRules: they are ignored. Fix: ")
    assert told == (not is_served)


def test_without_its_gate_a_taint_rule_changes_nothing(devices: Target) -> None:
    target = devices
    if not serves_rules(target):
        pytest.skip("the real API server of these tests does not serve the kind")
    offer(target, "pool", "gpu-0")
    create(target, RULES, "broken", {"taint": {"key": "broken", "effect": "NoSchedule"}})
    target.start()
    claim(target, "a")
    pod_with(target, "a", "a")
    target.wait_bound("a")
    target.api.delete(f"{RULES}/broken")


#: How often the scheduler is killed; `DEVICE_KILLS=50` for the long run.
KILLS = int(os.environ.get("DEVICE_KILLS", "2"))


def test_kill_9_leaks_no_device_and_gives_none_away_twice(devices: Target) -> None:
    """Every scheduler is killed as soon as it has written into another claim."""
    target = devices
    count = KILLS + 2
    offer(target, "pool", *(f"gpu-{number:02}" for number in range(count)))
    names = [f"p-{number:02}" for number in range(count)]
    claim(target, *names)

    def written() -> int:
        items = target.api.get(CLAIMS)["items"]
        return sum(
            bool(item["metadata"].get("finalizers")) + ("allocation" in item.get("status", {}))
            for item in items
        )

    def has_written_since(before: int) -> bool:
        return written() > before

    for number in range(KILLS):
        before = written()
        scheduler = target.start()
        scheduler.wait_until_scheduling()
        pod_with(target, names[number], names[number], cpu="10m")
        wait_for("a write", partial(has_written_since, before))
        scheduler.kill()
    for name in names[KILLS:]:
        pod_with(target, name, name, cpu="10m")
    target.start()
    target.wait_bound(*names)
    assert sorted(held(target).values()) == [f"gpu-{number:02}" for number in range(count)]
    for name in names:
        (consumer,) = target.api.get(f"{CLAIMS}/{name}")["status"]["reservedFor"]
        assert consumer["uid"] == target.pod(name)["metadata"]["uid"]
