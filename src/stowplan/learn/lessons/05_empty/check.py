"""Does it say that it runs, wait, and stop when it is told to?"""

from typing import Any

from stowplan.learn.checking import Mistake, logged, play
from stowplan.learn.rehearsal import Rehearsal
from stowplan.scenarios import Cluster


def check(work: Any, on: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        rehearsal = Rehearsal(work, cluster)
        run = rehearsal.method("run")
        with logged() as messages:
            await rehearsal.begin()
            if rehearsal.program.has_ended and rehearsal.program.error is None:
                raise Mistake("ended_at_once", at=run)
            rehearsal.program.must_go_on()
        if "Run is called" not in messages:
            raise Mistake("not_said", at=run)
        await rehearsal.end()

    play(scenario, on)
