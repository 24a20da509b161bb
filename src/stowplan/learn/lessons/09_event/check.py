"""Does the event tell what happened, and only if it happened?"""

from typing import Any

import msgspec

from stowplan import Node, Pod
from stowplan.api.recorder import EventRecorder
from stowplan.learn.checking import Mistake, play
from stowplan.learn.rehearsal import SCHEDULER_NAME, Rehearsal
from stowplan.scenarios import Cluster

NODE = "alpha"
UNLUCKY = "unlucky"


def fits(node: Node, pod: Pod) -> bool:
    return True


def all_equal(node: Node, pod: Pod) -> int:
    return 1


def check(work: Any, on: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create_node(NODE)
        rehearsal = Rehearsal(work, cluster)
        rehearsal.judge_by([fits], [all_equal])
        rehearsal.api.failures[UNLUCKY] = 1
        await rehearsal.begin()
        for pod in (UNLUCKY, "nginx"):
            await rehearsal.create_pod(pod)
        await cluster.sleep(3)
        rehearsal.program.must_go_on()
        if await cluster.node_of("nginx") != NODE:
            raise Mistake("not_bound", at=rehearsal.method("schedule_one"), pod="nginx")
        await judge_events(rehearsal, await events_of(cluster))
        await rehearsal.end()

    play(scenario, on)


async def events_of(cluster: Cluster) -> list[dict[str, Any]]:
    path = f"/apis/events.k8s.io/v1/namespaces/{cluster.namespace}/events"
    listed: dict[str, Any] = msgspec.json.decode(await cluster.client.request("GET", path))
    return [each for each in listed["items"] if each["regarding"]["kind"] == "Pod"]


async def judge_events(rehearsal: Rehearsal, events: list[dict[str, Any]]) -> None:
    emit_event = rehearsal.method("emit_event")
    schedule_one = rehearsal.method("schedule_one")
    ours = [each for each in events if each["regarding"]["name"] == "nginx"]
    if not ours:
        recorder = rehearsal.attribute("recorder", EventRecorder)
        if await recorder.drain(1.0):  # so it got nothing to write
            raise Mistake("no_event", at=schedule_one, pod="nginx")
        raise Mistake("not_written", at=rehearsal.method("run"), pod="nginx")
    uid = (await rehearsal.pod("nginx")).uid
    event = ours[0]
    right = {
        "reason": ("Scheduled", event.get("reason", "")),
        "type": ("Normal", event.get("type", "")),
        "reporting_controller": (SCHEDULER_NAME, event.get("reportingController", "")),
        "regarding": (uid, event["regarding"].get("uid", "")),
    }
    for field, (wanted, found) in right.items():
        if wanted != found:
            raise Mistake("wrong_field", at=emit_event, field=field, wanted=wanted, found=found)
    if NODE not in event.get("note", ""):
        raise Mistake("no_note", at=emit_event, node=NODE, found=event.get("note", ""))
    if any(each["regarding"]["name"] == UNLUCKY for each in events):
        raise Mistake("untrue", at=schedule_one, pod=UNLUCKY)
