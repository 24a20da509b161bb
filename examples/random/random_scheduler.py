"""The random scheduler of the Go tutorial, on Stowplan's framework: README.md walks through it."""

import asyncio
import json
import logging
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from stowplan import Cycle, Node, NodeView, Plugin, Pod, Status, unschedulable
from stowplan.api.client import ApiClient, Lane
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.clock import rfc3339
from stowplan.errors import StowplanError
from stowplan.framework.diagnosis import Diagnosis
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.decision import NO_NODES
from stowplan.scheduler.engine import Failure, Placement
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.process import SchedulerProcess
from stowplan.scheduler.reporter import Reporter
from stowplan.server.library import profile_of

SCHEDULER_NAME = "random-scheduler"
log = logging.getLogger(SCHEDULER_NAME)


def random_predicate(node: NodeView, pod: Pod) -> bool:
    return random.randrange(2) == 0


def random_priority(node: NodeView, pod: Pod) -> int:
    return random.randrange(100)


# Append your own: a node must pass every predicate, and its priorities are added up.
predicates: list[Callable[[NodeView, Pod], bool]] = [random_predicate]
priorities: list[Callable[[NodeView, Pod], int]] = [random_priority]


class RandomScheduler(Plugin):
    """Asks the two lists, and does what the tutorial does once a pod is bound."""

    name = SCHEDULER_NAME

    def filter(self, pod: Pod, node: NodeView, cycle: Cycle) -> str | None:
        for predicate in predicates:
            if not predicate(node, pod):
                return f"node(s) didn't pass {predicate.__name__}"
        # Scored here, since nobody asks for the score of a node that is the only one to fit.
        score = sum(priority(node, pod) for priority in priorities)
        cycle.notes.setdefault(SCHEDULER_NAME, {})[node.name] = score
        return None

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> Status:
        # No news of the cluster turns a coin over, so the pod is to wait for none, only for the
        # queue's backoff: 1, 2, 4, 8 and then 10 seconds.
        diagnosis.unschedulable_plugins.clear()
        return unschedulable()

    def score(self, pod: Pod, node: NodeView, cycle: Cycle) -> int:
        return int(cycle.notes[SCHEDULER_NAME][node.name])

    def normalize(self, cycle: Cycle, scores: Any) -> Any:
        # Of a numpy array: a sum may be anything, the framework wants 0 to 100. All for the best.
        return 100 * (scores == scores.max())

    async def post_bind(self, cycle: Cycle, pod: Pod, node: str) -> None:
        message = f"pod [{pod.key}] is successfully scheduled to node {node}"
        log.info(message)
        assert self.handle is not None
        name, space, now = pod.metadata.name, pod.metadata.namespace, rfc3339(time.time())
        event = {
            "metadata": {"generateName": f"{name}-", "namespace": space},
            "involvedObject": {"kind": "Pod", "name": name, "namespace": space, "uid": pod.uid},
            "source": {"component": SCHEDULER_NAME},
            "type": "Normal", "reason": "Scheduled", "message": message,
            "count": 1, "firstTimestamp": now, "lastTimestamp": now,
        }  # fmt: skip
        body, path = json.dumps(event).encode(), f"/api/v1/namespaces/{space}/events"
        try:
            await self.handle.client.request("POST", path, body=body, lane=Lane.EVENTS)
        except StowplanError as problem:
            log.info("failed to emit scheduled event %s", problem)


class Handlers(EventHandlers):
    def add_node(self, node: Node) -> None:
        log.info("New node is added. %s", node.name)
        super().add_node(node)


class Outcomes(Reporter):
    def bound(self, placement: Placement) -> None:
        """Nothing: `post_bind` writes the tutorial's event in place of kube-scheduler's."""

    def failed(self, failure: Failure) -> None:
        if failure.message and not failure.pod.is_terminating:
            what = "cannot find node that fits pod" if failure.decision else "failed to bind pod"
            why = failure.message.replace(NO_NODES, "failed to find schedulable nodes")
            log.info("%s %s", what, why)
        super().failed(failure)


def tell_attempt(outcome: Placement | Failure) -> None:
    if not outcome.decision:
        return  # the pod is on its way out, or was placed by somebody else
    log.info("found a pod to schedule: [%s]", outcome.pod.key)
    if isinstance(outcome, Placement):
        scores = outcome.decision.cycle.notes[SCHEDULER_NAME]
        shown = " ".join(f"{node}:{score}" for node, score in sorted(scores.items()))
        log.info("calculated priorities: map[%s]", shown)
        log.info("node %s is chosen for Pod [%s]", outcome.node, outcome.pod.key)


async def schedule() -> None:
    config, registry = profile_of([RandomScheduler], scheduler_name=SCHEDULER_NAME, defaults=False)
    engine, stop = build_engine(config, registry=registry), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with ApiClient(load_cluster_config()) as client:
        process = SchedulerProcess(
            engine,
            client,
            identity=SCHEDULER_NAME,
            on_outcome=tell_attempt,
            handlers=Handlers,
            reporter=Outcomes,
        )
        log.info("Run is called")
        await process.run(stop)


def main() -> None:
    logging.basicConfig(level="INFO", format="%(asctime)s %(message)s", datefmt="%Y/%m/%d %H:%M:%S")
    logging.getLogger("stowplan").setLevel(logging.ERROR)  # its decisions are told above ...
    logging.getLogger("stowplan.api").setLevel(logging.WARNING)  # ... but not a server that is away
    log.info("Start a scheduler")
    try:
        asyncio.run(schedule())
    except StowplanError as problem:
        log.error("%s", problem)
        sys.exit(problem.exit_code)


if __name__ == "__main__":
    main()
