"""What it costs to observe a run for `stowplan compare`."""

from __future__ import annotations

import msgspec

from stowplan.api.objects import Node, Pod
from stowplan.sim.results.observing import RunObserver
from tests.perf.counting import Work


def calls_of_a_binding(nodes: int) -> float:
    moment = 0.0
    observer = RunObserver("counted", lambda: moment)
    for number in range(nodes):
        observer.node_seen(msgspec.convert({"metadata": {"name": f"n{number}"}}, Node))
    moment = 0.5
    observer.node_gone("")  # takes the sample of second 0
    work = Work()
    for number in range(20):
        metadata = {"name": f"p{number}", "namespace": "default", "uid": f"u{number}"}
        created = msgspec.convert({"metadata": metadata}, Pod)
        bound = msgspec.convert({"metadata": metadata, "spec": {"nodeName": f"n{number}"}}, Pod)
        moment += 0.01  # the next sample is due at second 1
        with work.counted():
            observer.pod_created(created)
            observer.pod_bound(bound)
    return work.calls / 20


def test_a_change_costs_the_same_however_many_nodes_there_are() -> None:
    calls_of_a_binding(20)  # fills caches of the process
    assert calls_of_a_binding(2_000) == calls_of_a_binding(20)
