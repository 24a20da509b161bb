"""Is each pod of the namespace printed, with its phase and scheduler, as it changes?"""

from typing import Any

from stowplan.learn.checking import Mistake, Printed, part, play, printed, start
from stowplan.scenarios import Cluster, Options

SCHEDULER_NAME = "PrgContSched"
ELSEWHERE = "elsewhere"


def check(work: Any, on: str) -> None:
    schedule = part(work, "schedule", is_async=True)

    async def scenario(cluster: Cluster) -> None:
        await cluster.create_node("alpha")
        await cluster.create_pod("hello", schedulerName=SCHEDULER_NAME)
        await cluster.create_pod("stranger", namespace=ELSEWHERE)
        with printed() as out:
            program = start(cluster, schedule, cluster.client, cluster.namespace)
            await cluster.sleep(5)
            await cluster.create_pod("visitor")
            await cluster.sleep(5)
            program.must_go_on()
        look_at(out, cluster.namespace)

    def look_at(out: Printed, namespace: str) -> None:
        if not out.lines:
            raise Mistake("nothing_printed", at=schedule)
        if line := next((line for line in out.lines if "{pod." in line), ""):
            raise Mistake("no_f", at=schedule, line=line)
        hello = lines_of(out, "hello", "no_line")
        must_say(hello, "hello", "Pending", SCHEDULER_NAME)
        visitor = lines_of(out, "visitor", "missed_later")
        must_say(visitor, "visitor", "Pending", "default-scheduler")
        if not any("Running" in line for line in visitor):
            raise Mistake("missed_change", at=schedule, pod="visitor", phase="Running")
        if any("stranger" in line for line in out.lines):
            told = {"namespace": ELSEWHERE, "own": namespace}
            raise Mistake("other_namespace", at=schedule, pod="stranger", **told)

    def lines_of(out: Printed, pod: str, otherwise: str) -> list[str]:
        lines = [line for line in out.lines if pod in line]
        if not lines:
            raise Mistake(otherwise, at=schedule, pod=pod)
        return lines

    def must_say(lines: list[str], pod: str, phase: str, scheduler: str) -> None:
        line = lines[0]
        if "PodStatus(" in line:
            raise Mistake("too_much", at=schedule, pod=pod, line=f"{line[:60]}...")
        if phase not in line:
            raise Mistake("no_phase", at=schedule, pod=pod, line=line, phase=phase)
        if scheduler not in line:
            raise Mistake("no_scheduler", at=schedule, pod=pod, line=line, scheduler=scheduler)

    play(scenario, on, Options(with_scheduler=True))
