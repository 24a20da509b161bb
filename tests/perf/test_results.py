"""What it costs to observe a run for `stowplan compare`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from stowplan.api.objects import Node, Pod
from stowplan.sim.results.files import observe
from stowplan.sim.results.observing import RunObserver
from stowplan.sim.traces.recorder import read_recording
from tests.perf.counting import Work
from tests.unit.recording.test_bad_recordings import HEADER, SYNCED, node, packed, pod


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


def calls_of_sessions(file: Path, *, pods: int, sessions: int) -> float:
    """Of reading sessions that list nothing, after one that lists the pods."""
    listed = [pod(f"p{number}", 0.0) for number in range(pods)]
    file.write_bytes(packed(HEADER, node(), *listed, SYNCED, *([HEADER] * sessions)))
    work = Work()
    with work.counted():
        observe(file)
        list(read_recording(file, skip_broken=True).events())
    return work.calls


def test_a_session_costs_the_same_however_many_pods_there_are(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl.gz"

    def per_session(pods: int) -> float:
        few, many = (calls_of_sessions(file, pods=pods, sessions=number) for number in (10, 110))
        return (many - few) / 100

    per_session(10)  # fills caches of the process
    assert per_session(1_000) <= 1.1 * per_session(10)
