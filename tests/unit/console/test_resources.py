"""What the pages are given: waiting pods by cause, one pod's matrix, figures over time."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from stowplan.api.resources import NODES, PODS
from stowplan.config.defaults import default_config
from stowplan.console.decision import explain_pod, recorded_attempt
from stowplan.console.fixes import FixSearch
from stowplan.console.flow import quantile
from stowplan.console.mirror import mirror_of
from stowplan.console.pending import dominant_reason, waiting_pods
from stowplan.errors import BadRequest, NotFound, ServerError
from stowplan.judge.objects import thing_of
from stowplan.testing import node, pod
from tests.console_stage import Stage


def staged() -> Stage:
    stage = Stage()
    stage.add_nodes([node("big", cpu=16), node("small", cpu=2), node("off", unschedulable=True)])
    stage.add_pods([pod("web", cpu=1), pod("huge", cpu=64), pod("held", gates=["example.com/g"])])
    return stage


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            "0/5 nodes are available: 1 node(s) were unschedulable, 4 Insufficient cpu."
            " preemption: 0/5 nodes are available: 5 No preemption victims found.",
            "Insufficient cpu",
        ),
        ("0/3 nodes are available: 3 node(s) had untolerated taint(s).", "node(s) had untolerated"
         " taint(s)"),
        ('0/2 nodes are available: persistentvolumeclaim "a" not found. preemption: x', 'persistent'
         'volumeclaim "a" not found'),
        (
            "0/3 nodes are available: 1 node(s) lack a disk, or a GPU, 2 too small. no new claims"
            " to deallocate, preemption: 0/3 nodes are available.",
            "too small",
        ),
        (f"0/1 nodes are available: {'9' * 5000} x", f"{'9' * 5000} x"),
        ("no nodes available to schedule pods", "no nodes available to schedule pods"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_cause_is_what_most_nodes_say(message: str, cause: str) -> None:
    assert dominant_reason(message) == cause


async def test_waiting_pods_of_a_scheduler_and_of_objects_alone() -> None:
    stage = staged()
    live = await waiting_pods(stage.mirror, stage.engine)
    states = {each["state"]: each for each in live["states"]}
    assert {name: each["pods"] for name, each in states.items()} == {
        "active": 0,
        "backoff": 0,
        "unschedulable": 1,
        "gated": 1,
        "permit": 0,
    }
    (group,) = states["unschedulable"]["groups"]
    assert (group["cause"], group["plugins"]) == (
        "Insufficient cpu",
        ["NodeResourcesFit", "NodeUnschedulable"],
    )
    assert group["listed"][0]["pod"] == "default/huge"
    assert group["listed"][0]["attempts"] == 1
    alone = await waiting_pods(stage.mirror, None)
    counts = {each["state"]: each["pods"] for each in alone["states"]}
    assert (alone["live"], counts["unschedulable"], counts["gated"]) == (False, 1, 1)


def test_the_matrix_of_a_pod_that_fits_nowhere_and_of_one_that_is_placed() -> None:
    stage = staged()
    huge = stage.mirror.find_pod("default", "huge")
    assert huge is not None
    shown = explain_pod(stage.mirror, stage.engine, huge)
    (attempt,) = shown["attempts"]
    assert (attempt["attempt"], attempt["result"]) == (1, "unschedulable")
    assert explain_pod(stage.mirror, None, huge)["attempts"] == []
    assert shown["matrix"]["winner"] == ""
    refusing = {
        each["node"]: [obstacle["plugin"] for obstacle in each["obstacles"]]
        for each in shown["matrix"]["nodes"]
    }
    assert refusing["big"] == ["NodeResourcesFit"]
    assert refusing["off"] == ["NodeUnschedulable", "NodeResourcesFit"]
    web = stage.mirror.find_pod("default", "web")
    assert web is not None
    matrix = explain_pod(stage.mirror, stage.engine, web)["matrix"]
    assert matrix["winner"] == "big"
    assert [each["node"] for each in matrix["nodes"]] == ["big", "small", "off"]
    assert matrix["nodes"][0]["scores"]["NodeResourcesFit"] > 0
    # Explaining took the pod out of the mirror for a moment, and put it back.
    assert stage.mirror.table.pod_count[stage.mirror.table.row_of["big"]] == 1


def test_a_pod_whose_decision_is_too_much_work_beside_a_scheduler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage()
    stage.add_nodes([node("big", labels={"disk": "ssd"})])
    stage.add_pods([pod("web", node_selector={"disk": "ssd"})])
    web = stage.mirror.find_pod("default", "web")
    assert web is not None
    monkeypatch.setattr("stowplan.console.decision.DECISION_WORK", 0)
    with pytest.raises(ServerError, match="too expensive to explain beside scheduling") as refused:
        explain_pod(stage.mirror, stage.engine, web)
    assert refused.value.status == 503
    # The pod is back on its node, and nothing limits what comes next.
    assert stage.mirror.table.pod_count[stage.mirror.table.row_of["big"]] == 1
    assert explain_pod(stage.mirror, None, web)["matrix"]["winner"] == "big"


def test_a_pod_that_no_profile_serves() -> None:
    config = default_config()
    (profile,) = config.profiles
    two = replace(config, profiles=(profile, replace(profile, scheduler_name="other")))
    mirror = mirror_of(two)
    mirror.put(NODES, node("n1"))
    mirror.put(PODS, pod("web", scheduler_name="a-stranger"))
    web = mirror.find_pod("default", "web")
    assert web is not None
    with pytest.raises(BadRequest, match='"a-stranger": no profile has that name'):
        explain_pod(mirror, None, web)


def test_figures_over_time() -> None:
    stage = staged()
    flow = stage.console.flow
    stage.clock.shift += 1
    flow.sample()
    stage.add_pods([pod(f"more-{n}", cpu="10m") for n in range(4)])
    stage.clock.shift += 2
    sample = flow.sample()
    assert sample["bound"] == pytest.approx(2, rel=0.2)
    assert sample["attempts"][0] == pytest.approx(2, rel=0.2)
    view = flow.view()
    assert view["pending"] == [2, 2]
    assert view["latency"][0][-1] > 0
    assert len(view["time"]) == 2


def test_quantiles_are_interpolated_within_their_bucket() -> None:
    assert quantile((1.0, 2.0, 4.0), (0, 10, 10, 0), 0.75) == 3.0
    assert quantile((1.0, 2.0), (0, 0, 5), 0.5) == 2.0
    assert quantile((1.0,), (0, 0), 0.5) is None


async def test_fixes_are_searched_in_steps_between_which_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = staged()
    stage.add_pods([pod("db", cpu=1, node_selector={"disk": "ssd"})])
    thing = stage.mirror.find_pod("default", "db")
    assert thing is not None
    steps = 0

    async def others() -> None:
        nonlocal steps
        while True:
            await asyncio.sleep(0)
            # Between steps the cluster is as it was.
            assert stage.mirror.table.node_names() == ["big", "small", "off"]
            assert "disk" not in (
                stage.mirror.cluster.things[node_key].struct.metadata.labels or {}
            )
            steps += 1

    node_key = thing_of(NODES, node("big")).key
    running = asyncio.create_task(others())
    search = FixSearch(stage.mirror, stage.clock, has_scheduler=True)
    first, second = await asyncio.gather(search.find(thing), search.find(thing))
    assert first is second
    assert first["whole"] is True
    assert [fix["kind"] for fix in first["fixes"]][:1] == ["NodeLabel"]
    assert "disk=ssd" in first["fixes"][0]["text"]
    assert steps > len(first["fixes"])
    running.cancel()
    # Each step may do the work of one decision.
    monkeypatch.setattr(search, "_limit", 0)
    stage.mirror.put(NODES, node("late", labels={"disk": "hdd"}))
    with pytest.raises(ServerError, match="too expensive to decide beside scheduling"):
        await search.find(thing)
    # Nothing limits what comes next.
    assert explain_pod(stage.mirror, None, thing)["matrix"] is not None


async def test_a_victim_that_is_gone_in_the_middle_of_a_search() -> None:
    stage = Stage()
    stage.add_nodes([node("n1", cpu=4)])
    stage.add_pods([pod(f"low-{number}", cpu=2, priority=-5, node="n1") for number in range(2)])
    stage.add_pods([pod("web", cpu=4)])
    web = stage.mirror.find_pod("default", "web")
    assert web is not None
    search = FixSearch(stage.mirror, stage.clock, has_scheduler=False)
    kinds = {fix["kind"] for fix in (await search.find(web))["fixes"]}
    assert "Eviction" in kinds
    asked = asyncio.create_task(search.find(web))
    await asyncio.sleep(0)  # the plans are made
    for number in range(2):
        stage.mirror.remove(PODS, pod(f"low-{number}"))
    assert {fix["kind"] for fix in (await asked)["fixes"]}.isdisjoint({"Eviction"})
    assert stage.mirror.table.node_names() == ["n1"]


def test_a_recorded_attempt_is_opened() -> None:
    stage = staged()
    said = recorded_attempt(stage.engine, "default/huge", 1)
    assert said is not None
    details = said["attempt"]["details"]
    assert (said["of"], details["reasons"][0]["plugin"]) == (1, "NodeResourcesFit")
    placed = recorded_attempt(stage.engine, "default/web", 1)
    assert placed is not None
    assert placed["attempt"]["details"]["scores"][0]["node"] == "big"
    with pytest.raises(NotFound, match="the ledger has no attempt 2 of pod"):
        recorded_attempt(stage.engine, "default/huge", 2)
    assert recorded_attempt(None, "default/huge", 1) is None
