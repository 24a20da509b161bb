"""When things happen in the demo: an opening that `--once` plays, and waves without end after it.

Times are seconds since the beginning at speed 1. The story knows what it has created, so that
waves can roll out, scale in and clean up without asking the cluster. Same seed, same story.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

from stowplan.demo.cluster import NodePlan, PodPlan, plan_nodes


@dataclass(frozen=True, slots=True)
class CreatePod:
    at: float
    pod: PodPlan


@dataclass(frozen=True, slots=True)
class DeletePod:
    at: float
    name: str


@dataclass(frozen=True, slots=True)
class OpenGate:
    at: float
    name: str


@dataclass(frozen=True, slots=True)
class Cordon:
    """Take a node out of service, or put it back (`is_on` False)."""

    at: float
    node: str
    is_on: bool


Step: TypeAlias = CreatePod | DeletePod | OpenGate | Cordon


@dataclass(frozen=True, slots=True)
class App:
    """An application and the spec of its replicas."""

    name: str
    milli_cpu: int
    memory_mi: int
    is_critical: bool = False
    is_job: bool = False
    gpus: int = 0


WEB: Final = App("web", 500, 512)
API: Final = App("api", 1000, 1024)
CACHE: Final = App("cache", 250, 3072)
SEARCH: Final = App("search", 2000, 4096)
MAIL: Final = App("mail", 250, 256)
PAYMENTS: Final = App("payments", 1000, 2048, is_critical=True)
AUDIT: Final = App("audit", 500, 512)
REPORT: Final = App("report", 2000, 2048, is_job=True)
TRANSCODE: Final = App("transcode", 3000, 3072, is_job=True)
TRAINER: Final = App("trainer", 2000, 4096, is_job=True, gpus=1)
WAREHOUSE: Final = App("warehouse", 96_000, 512 * 1024)

_GATE: Final = "example.com/budget-approved"
_WAREHOUSE_WHY: Final = "asks for more than any node has"
#: From the beginning of a wave to that of the next.
_PAUSE_S: Final = (3.0, 6.0)


class Story:
    """The nodes and everything that happens to them, from a seed."""

    def __init__(self, seed: int, *, nodes: int = 12) -> None:
        self._rng = Random(seed)
        self.nodes: tuple[NodePlan, ...] = plan_nodes(self._rng, nodes)
        self._serial: Counter[str] = Counter()
        self._replicas: defaultdict[str, deque[str]] = defaultdict(deque)
        #: Waves grow with the cluster, so that a big cluster is busy too.
        self._scale = max(1, round(nodes / 12))
        self._cordoned = next((node.name for node in self.nodes if node.is_cordoned), "")
        self.opening: tuple[Step, ...] = tuple(sorted(self._opening(), key=lambda step: step.at))

    @property
    def opening_s(self) -> float:
        """When the last step of the opening is due."""
        return self.opening[-1].at

    def waves(self) -> Iterator[Step]:
        """What follows the opening, for ever, in the order of time."""
        kinds: tuple[Callable[[float], list[Step]], ...] = (
            self._jobs,
            self._jobs,
            self._rollout,
            self._rush_hour,
            self._maintenance,
            self._training,
            self._approval,
        )
        start = self.opening_s
        planned: list[Step] = []
        while True:
            for wave in self._rng.sample(kinds, len(kinds)):
                # Waves overlap: the last one's deletions may come after the next one's pods.
                start += self._rng.uniform(*_PAUSE_S)
                while planned and planned[0].at < start:
                    yield planned.pop(0)
                planned = sorted([*planned, *wave(start)], key=lambda step: step.at)

    # The opening

    def _opening(self) -> Iterator[Step]:
        vary = self._rng.randint
        yield from self._arrive(WEB, 1.0, 6)
        yield from self._arrive(CACHE, 1.5, 3)
        yield from self._arrive(API, 2.0, vary(4, 5))
        yield from self._arrive(REPORT, 4.0, vary(5, 7))
        yield CreatePod(5.5, self._pod(WAREHOUSE, stays_pending=_WAREHOUSE_WHY))
        yield from self._gated(6.5, wait_s=6.0)
        yield from self._arrive(TRAINER, 7.5, 2)
        yield from self._arrive(PAYMENTS, 9.0, vary(2, 3))
        yield from self._arrive(SEARCH, 10.0, 3)
        yield from self._arrive(WEB, 12.0, vary(3, 5))
        yield from self._arrive(TRANSCODE, 14.0, vary(7, 9))
        yield from self._arrive(API, 17.0, 2)
        yield from self._arrive(MAIL, 18.0, vary(2, 4))

    # Waves

    def _jobs(self, now: float) -> list[Step]:
        app = self._rng.choice((REPORT, TRANSCODE))
        return list(self._arrive(app, now, self._rng.randint(12, 20) * self._scale))

    def _training(self, now: float) -> list[Step]:
        return list(self._arrive(TRAINER, now, self._rng.randint(2, 3)))

    def _approval(self, now: float) -> list[Step]:
        # One auditor is enough: the last one goes when the next has come.
        leaving = [DeletePod(now + 6.0, name) for name in self._retire(AUDIT, 1)]
        return [*leaving, *self._gated(now, wait_s=5.0)]

    def _rollout(self, now: float) -> list[Step]:
        """Replace every replica of an application, new before old."""
        app = self._rng.choice((WEB, API, CACHE, SEARCH, PAYMENTS, MAIL))
        old = self._retire(app, len(self._replicas[app.name]))
        steps: list[Step] = list(self._arrive(app, now, len(old)))
        steps += [DeletePod(now + 1.5 + 0.4 * place, name) for place, name in enumerate(old)]
        return steps

    def _rush_hour(self, now: float) -> list[Step]:
        """More web servers for a while."""
        steps: list[Step] = list(self._arrive(WEB, now, self._rng.randint(6, 10) * self._scale))
        leaving = self._retire(WEB, len(steps))
        steps += [DeletePod(now + 8.0 + 0.3 * place, name) for place, name in enumerate(leaving)]
        return steps

    def _maintenance(self, now: float) -> list[Step]:
        """Cordon the next node and uncordon the last one."""
        if not self._cordoned:
            return []
        others = [node for node in self.nodes if not node.is_in_pool]
        following = self._rng.choice([node for node in others if node.name != self._cordoned])
        steps: list[Step] = [
            Cordon(now, self._cordoned, is_on=False),
            Cordon(now + 1.0, following.name, is_on=True),
        ]
        self._cordoned = following.name
        return steps

    # What they are made of

    def _arrive(self, app: App, start: float, count: int) -> Iterator[CreatePod]:
        """Create several pods, one shortly after the other."""
        for place in range(count):
            jitter = self._rng.uniform(0.0, 0.15)
            yield CreatePod(start + 0.25 * place + jitter, self._pod(app))

    def _gated(self, now: float, *, wait_s: float) -> tuple[Step, Step]:
        pod = self._pod(AUDIT, gate=_GATE)
        return CreatePod(now, pod), OpenGate(now + wait_s, pod.name)

    def _pod(self, app: App, *, gate: str = "", stays_pending: str = "") -> PodPlan:
        self._serial[app.name] += 1
        name = f"{app.name}-{self._serial[app.name]}"
        if not app.is_job and not stays_pending:
            self._replicas[app.name].append(name)
        return PodPlan(
            name=name,
            app=app.name,
            milli_cpu=app.milli_cpu,
            memory_mi=app.memory_mi,
            gpus=app.gpus,
            run_s=round(self._rng.uniform(5.0, 10.0), 1) if app.is_job else None,
            gate=gate,
            is_critical=app.is_critical,
            tolerates_pool=app.is_job,
            stays_pending=stays_pending,
        )

    def _retire(self, app: App, count: int) -> list[str]:
        """Names of the oldest replicas, which the story then forgets."""
        replicas = self._replicas[app.name]
        return [replicas.popleft() for _ in range(min(count, len(replicas)))]
