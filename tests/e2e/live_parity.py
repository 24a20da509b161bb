"""``python -m tests.e2e.live_parity [--pods 500] [--seed 1] [--nodes 60] [--preemption]``

Called by ``make live-parity``. Plays one mixture to kube-scheduler and then to Stowplan, prints how
it goes, a summary, and a table of whatever was decided differently (then the exit status is 1).
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from stowplan.lab.controlplane.binaries import BinaryMissing
from stowplan.lab.controlplane.processes import ControlPlaneError
from tests.e2e.live_crowd import Crowd
from tests.e2e.live_mixture import Mixture
from tests.e2e.live_play import KUBE_SCHEDULER, SHARED, STOWPLAN, play
from tests.e2e.live_report import UNSEEN, differences, seen_plugins, summary, table


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.e2e.live_parity",
        description="Compare Stowplan with kube-scheduler, pod for pod, on a real control plane.",
    )
    parser.add_argument("--pods", type=int, default=500)
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--preemption", action="store_true", help="the default profile, PostFilter plugins too"
    )
    options = parser.parse_args(arguments)
    try:
        return asyncio.run(_compare(options))
    except (BinaryMissing, ControlPlaneError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


async def _compare(options: argparse.Namespace) -> int:
    began = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {line}", flush=True)

    mixture = (Crowd if options.preemption else Mixture)(options.seed, options.nodes, options.pods)
    plays = {
        scheduler: await play(scheduler, mixture, preemption=options.preemption, tell=tell)
        for scheduler in (KUBE_SCHEDULER, STOWPLAN)
    }
    theirs, ours = plays[KUBE_SCHEDULER], plays[STOWPLAN]
    found = differences(theirs, ours)
    tell(f"seed {options.seed}: {summary(theirs, found)}")
    unseen = [name for name in SHARED if name not in seen_plugins(theirs)]
    if unseen:
        reasons = [f"{name} ({UNSEEN[name]})" if name in UNSEEN else name for name in unseen]
        print(f"plugins that decided nothing that can be seen: {', '.join(reasons)}")
    if found:
        print(table(found, theirs))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
