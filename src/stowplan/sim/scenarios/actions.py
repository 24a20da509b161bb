"""What a YAML scenario is once it has been read: steps in order, each one action.

Made by `document`, played by `steps`. What must stay true: nothing here refers to the text of the
file any more but for `Place`, which says where a step was written; manifests are complete, counts
are resolved, and every action has been checked as far as that goes without a cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from stowplan.sim.scenarios.expectations import Expected
    from stowplan.sim.scenarios.scheduling import Scheduling
    from stowplan.sim.traces.model import DisruptionKind, Trace
    from stowplan.workloads.model import Workload

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a file, and what is written there, in words."""

    file: Path
    line: int
    what: str

    @property
    def short(self) -> str:
        """`scenario.yaml:12`."""
        return f"{self.file}:{self.line}" if self.line else str(self.file)

    def __str__(self) -> str:
        return f"{self.short}: {self.what}"


@dataclass(frozen=True, slots=True)
class ObjectPattern:
    """Objects of one kind by name; `*` and `?` as in a shell."""

    kind: str
    name: str
    #: Empty: the scenario's own, or none if the kind is in no namespace.
    namespace: str = ""

    @property
    def is_pattern(self) -> bool:
        return any(sign in self.name for sign in "*?[")

    def __str__(self) -> str:
        return "/".join(part for part in (self.kind.lower(), self.namespace, self.name) if part)


@dataclass(frozen=True, slots=True)
class Create:
    """Objects, then nodes; and once the scheduler knows them, pods."""

    objects: tuple[Json, ...] = ()
    nodes: tuple[Json, ...] = ()
    pods: tuple[Json, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.objects or self.nodes or self.pods)


@dataclass(frozen=True, slots=True)
class Delete:
    targets: tuple[ObjectPattern, ...]
    #: None: what the object says itself.
    grace_period_s: float | None = None


@dataclass(frozen=True, slots=True)
class Patch:
    target: ObjectPattern
    patch: Json


@dataclass(frozen=True, slots=True)
class OnNodes:
    verb: DisruptionKind
    #: Names or patterns.
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sleep:
    seconds: float


@dataclass(frozen=True, slots=True)
class Say:
    text: str


@dataclass(frozen=True, slots=True)
class WaitForQuiet:
    pass


@dataclass(frozen=True, slots=True)
class WaitUntil:
    expected: Expected
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Expect:
    all: tuple[Expected, ...]


@dataclass(frozen=True, slots=True)
class PlayWorkload:
    """Play workloads of scheduler_perf, one after the other."""

    workloads: tuple[Workload, ...]


@dataclass(frozen=True, slots=True)
class PlayTrace:
    """A trace from a file, or one that is made up by a description."""

    what: str
    trace: Trace
    #: The same trace generated from another seed.
    with_seed: Callable[[int], Trace]


Action: TypeAlias = (
    Create
    | Delete
    | Patch
    | OnNodes
    | Sleep
    | Say
    | WaitForQuiet
    | WaitUntil
    | Expect
    | PlayWorkload
    | PlayTrace
)


@dataclass(frozen=True, slots=True)
class ScenarioStep:
    #: From 1, as people count; the cluster that is there at first is step 0.
    number: int
    verb: str
    #: What it does in a few words, or what its author calls it.
    title: str
    place: Place
    action: Action
    #: Wait for quiet afterwards.
    settle: bool = True


@dataclass(frozen=True, slots=True)
class Scenario:
    file: Path
    name: str
    steps: tuple[ScenarioStep, ...]
    about: str
    #: None: no preference.
    seed: int | None
    scheduling: Scheduling

    @property
    def pods(self) -> int:
        """Pods that its steps create."""
        return sum(_pods_of(step.action) for step in self.steps)


def _pods_of(action: Action) -> int:
    match action:
        case Create():
            return len(action.pods)
        case PlayWorkload():
            return sum(workload.pods for workload in action.workloads)
        case PlayTrace():
            return action.trace.pods
    return 0
