"""Make a failing script small: drop steps and replicas while it still fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stowplan.sim.faults.script import Script


def shrink(
    script: Script, fails: Callable[[Script], bool], progress: Callable[[Script], None]
) -> Script:
    """The smallest script found that fails as the first one does.

    `fails` runs a script. Steps are dropped in halves, quarters and so on, in the end one by one.
    """
    for without in ({"verify": 0}, {"annotate": False}, {"replicas": 1}):
        simpler = replace(script, **without)
        if simpler != script and _is_playable(simpler) and fails(simpler):
            script = simpler
    size = max(1, len(script.steps) // 2)
    while True:
        has_dropped = False
        begin = 0
        while begin < len(script.steps):
            rest = script.steps[:begin] + script.steps[begin + size :]
            smaller = script.with_steps(rest)
            if fails(smaller):
                script, has_dropped = smaller, True
                progress(script)
            else:
                begin += size
        if size == 1 and not has_dropped:
            return script
        if not has_dropped:
            size = max(1, size // 2)


def _is_playable(script: Script) -> bool:
    return all(step.args.get("replica") in (None, *range(script.replicas)) for step in script.steps)
