"""Record the example cluster of docs/choosing-a-strategy.md: python -m tools.example_recording

A generated trace is played under kube-scheduler's defaults, in virtual time, while the recorder of
`stowplan record` watches. The same trace gives the same file.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.apiserver.in_process import SERVER, InProcess
from stowplan.recording.files import Output
from stowplan.recording.recorder import Recorder
from stowplan.scenarios import Cluster, Options, play_trace, run_scenario
from stowplan.traces import load_trace


class RecordedClient(ApiClient):
    """A client of the cluster in this process, which does not answer /version."""

    async def version(self) -> dict[str, Any]:
        return {"gitVersion": "v1.36.3"}


FOLDER = Path(__file__).parents[1] / "examples" / "strategy"


def record(trace_file: Path, recording: Path) -> None:
    recording.unlink(missing_ok=True)
    trace = load_trace(trace_file)

    async def scenario(cluster: Cluster) -> None:
        target = cluster.target
        for manifest in trace.objects():
            await cluster.create(manifest)
        await cluster.settle()
        output = Output(recording, clock=target.clock)
        assert target.pretend is not None
        client = RecordedClient(ClusterConfig(server=SERVER), transport=InProcess(target.pretend))
        recorder = Recorder(client, output, clock=target.clock)
        task = asyncio.create_task(recorder.run())
        await asyncio.sleep(1)
        await play_trace(cluster, replace(trace, make_objects=lambda: iter(())))
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    outcome = run_scenario(scenario, options=Options(name="recording", keeps_entries=False))
    assert not outcome.problem, outcome.problem


if __name__ == "__main__":
    record(FOLDER / "trace.yaml", FOLDER / "monday.jsonl.gz")
