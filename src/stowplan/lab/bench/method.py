"""The method section of docs/performance.md: what is measured, how, and on which machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stowplan.lab.bench.figures import QUIET_CORES, Spread
from stowplan.lab.bench.results import Measured

_METHOD: Final = f"""## Method

**Contestants.** Stowplan, kube-scheduler and `raw` take turns on one machine, each run on a fresh
control plane. kube-scheduler's request limit is lifted and its queueing hints are on. Each
scheduler has its own default profile: kube-scheduler scores a sample of the nodes, Stowplan scores
all of them. `raw` binds each pod to the next node without deciding anything, with or without an
event for each pod. It shows what the API server of this machine can take. For pods with devices it
sends what both schedulers send: a claim's finalizer, its allocation with the reservation, and the
binding; for an extended resource it first creates the claim, and patches the pod's status before it
binds. It takes the next free device.

**Workloads.** scheduler_perf's files, unchanged but for the number of measured pods where a scale
is given.

- Usually all measured pods exist when the contestant starts. Creating a pod costs the API server
  more than binding it, so a fast scheduler would otherwise wait for pods, and the rate would be
  that of creation.
- Under Preemption, for memory, where devices come and go and in [As they come](#as-they-come), pods
  are created while the scheduler runs, as scheduler_perf does it.
- Devices are all of scheduler_perf's workloads with devices that are labelled `performance`, with
  queueing hints where there are two variants. PublishResourceSlices is left out: it has no pods, so
  there is nothing to bind.
- kube-controller-manager makes claims from templates. In a backlog they exist before the contestant
  starts.
- Before the first measured pod, events of earlier pods are given up to 20 s to settle.

**Figures.** Throughput is counted in binds. Ratios are taken within each round. A round in which a
scheduler beats `raw` does not count. A run is called disturbed if other processes (without a nice
value) kept more than {QUIET_CORES} cores busy: on a machine with few cores that hides differences,
because every contestant then waits for the API server.

**Events.** Stowplan's event writes yield to binds, so most of them follow the last bind;
kube-scheduler's precede it. The throughput of a longer rush is nearer to `raw + events`. [Memory,
start, latency, events](#memory-start-latency-events) counts them.
"""


def method_lines(all_measured: Sequence[Measured]) -> Iterator[str]:
    """The method, the machine, and how much its speed changed meanwhile."""
    yield _METHOD
    abouts = [result.about for one in all_measured for result in one.results]
    machines = sorted({about.machine for about in abouts})
    versions = sorted({f"Kubernetes {about.kubernetes}, Python {about.python}" for about in abouts})
    commits = sorted({about.commit for about in abouts if about.commit})
    commands = sorted({" ".join(about.command) for about in abouts})
    yield f"- Machine: {'; '.join(machines)}"
    yield f"- Versions: {'; '.join(versions)}; Stowplan at {', '.join(commits) or 'a release'}"
    if abouts:
        when = sorted(about.when for about in abouts)
        yield f"- Measured from {when[0]} to {when[-1]}"
    yield f"- Commands: {'; '.join(f'`{command}`' for command in commands)}"
    nice = Spread.of(run.nice_cores for one in all_measured for run in one.outcome.runs)
    if nice is not None and nice.high >= 0.05:
        yield (
            f"- Nice processes kept {nice.low:.1f} to {nice.high:.1f} cores busy; figures of a "
            "quiet machine are higher"
        )
    runs = [run for one in all_measured for run in one.outcome.runs]
    pace = Spread.of(run.fixed_work_s for run in runs)
    if pace is not None:
        timed = sum(run.fixed_work_s is not None for run in runs)
        yield (
            "- The machine's speed changed from run to run: a fixed piece of work took "
            f"{pace.low * 1000:.2f} to {pace.high * 1000:.2f} ms of CPU time (median "
            f"{pace.median * 1000:.2f}, noted in {timed} of {len(runs)} runs)"
        )
    yield ""
