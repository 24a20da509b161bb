"""The random scheduler of the Go tutorial, on Stowplan's framework: README.md walks through it."""

import json
import logging
import random
import time
from collections.abc import Callable

import stowplan
from stowplan import Cycle, NodeView, Pod

SCHEDULER_NAME = "random-scheduler"
log = logging.getLogger(SCHEDULER_NAME)


def random_predicate(node: NodeView, pod: Pod) -> bool:
    return random.randrange(2) == 0


def random_priority(node: NodeView, pod: Pod) -> int:
    return random.randrange(100)


# Append your own: a node must pass every predicate, and its priorities are added up.
predicates: list[Callable[[NodeView, Pod], bool]] = [random_predicate]
priorities: list[Callable[[NodeView, Pod], int]] = [random_priority]


class RandomScheduler(stowplan.Plugin):
    name = SCHEDULER_NAME

    def filter(self, pod: Pod, node: NodeView, cycle: Cycle) -> str | None:
        for predicate in predicates:
            if not predicate(node, pod):
                return f"node(s) didn't pass {predicate.__name__}"
        # If only one node fits, none is scored, so the sums are made here.
        sums = cycle.notes.setdefault(self.name, {})
        sums[node.name] = sum(priority(node, pod) for priority in priorities)
        return None

    def post_filter(self, cycle: Cycle, diagnosis: stowplan.Rejections) -> stowplan.Status:
        # No event in the cluster turns a coin over: try again in a second.
        self.handle.call_later(1.0, lambda: self.handle.activate([cycle.pod]))
        return stowplan.unschedulable()

    def score(self, pod: Pod, node: NodeView, cycle: Cycle) -> int:
        sums = cycle.read(self.name)
        return 100 if sums[node.name] == max(sums.values()) else 0

    def reserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        sums = sorted(cycle.read(self.name).items())
        log.info("found a pod to schedule: [%s]", pod.key)
        log.info("calculated priorities: map[%s]", " ".join(f"{name}:{n}" for name, n in sums))
        log.info("node %s is chosen for Pod [%s]", node, pod.key)

    async def post_bind(self, cycle: Cycle, pod: Pod, node: str) -> None:
        message = f"pod [{pod.key}] is successfully scheduled to node {node}"
        log.info(message)
        name, space, now = pod.metadata.name, pod.metadata.namespace, time.gmtime()
        event = {
            "metadata": {"generateName": f"{name}-", "namespace": space},
            "involvedObject": {"kind": "Pod", "name": name, "namespace": space, "uid": pod.uid},
            "source": {"component": SCHEDULER_NAME},
            "type": "Normal", "reason": "Scheduled", "message": message, "count": 1,
            **dict.fromkeys(("firstTimestamp", "lastTimestamp"), time.strftime("%FT%TZ", now)),
        }  # fmt: skip
        body, path = json.dumps(event).encode(), f"/api/v1/namespaces/{space}/events"
        try:
            await self.handle.client.request("POST", path, body=body)
        except stowplan.StowplanError as problem:
            log.info("failed to emit scheduled event %s", problem)


def report(failure: stowplan.Failure) -> None:
    if failure.reason == "Unschedulable":
        log.info("found a pod to schedule: [%s]", failure.pod.key)
        none = "no nodes available to schedule pods"  # kube-scheduler's words for the tutorial's
        why = failure.message.replace(none, "failed to find schedulable nodes")
        log.info("cannot find node that fits pod %s", why)
    else:
        log.info("failed to bind pod %s", failure.message)


def main() -> None:
    logging.basicConfig(level="INFO", format="%(asctime)s %(message)s", datefmt="%Y/%m/%d %H:%M:%S")
    logging.getLogger("stowplan").setLevel(logging.ERROR)  # its decisions are logged above ...
    logging.getLogger("stowplan.api").setLevel(logging.WARNING)  # ... but not a server that is away
    log.info("Start a scheduler")
    log.info("Run is called")
    stowplan.run(
        RandomScheduler,
        scheduler_name=SCHEDULER_NAME,
        defaults=False,
        verbosity=None,
        on_node=lambda node: log.info("New node is added. %s", node.name),
        on_failure=report,
        scheduled_event=False,
    )


if __name__ == "__main__":
    main()
