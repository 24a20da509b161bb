"""A workload after loading: operations in order, with every parameter resolved.

Built by `load`, run by `play`, listed by the commands. Invariant: nothing here refers to the file
any more; counts are numbers, namespaces are names, templates are compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import ClassVar, TypeAlias

from stowplan.workloads.templates import Template


class Stage(Enum):
    """How far pods must have come for a wait to end."""

    #: The pod has a node, or once had one.
    SCHEDULED = "Scheduled"
    #: It has a node or a PodScheduled condition: a scheduler (or a gate) has said something.
    ATTEMPTED = "Attempted"


class ChurnMode(Enum):
    #: New objects all the time.
    CREATE = "create"
    #: Objects are created, deleted, created again.
    RECREATE = "recreate"


@dataclass(frozen=True, slots=True)
class NodeAllocatable:
    """Adds to every node's allocatable, and gives it a CSINode with limits of its drivers."""

    allocatable: Mapping[str, str] = field(default_factory=dict)
    #: Driver name to the number of volumes it may attach; None is no limit.
    csi_volumes: Mapping[str, int | None] = field(default_factory=dict)
    migrated_plugins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeLabels:
    """A label whose values are dealt to the nodes in turn."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UniqueNodeLabel:
    """A label with a value of its own on every node."""

    key: str


NodeStrategy: TypeAlias = NodeAllocatable | NodeLabels | UniqueNodeLabel


@dataclass(frozen=True, slots=True)
class CreateNodes:
    opcode: ClassVar[str] = "createNodes"

    count: int
    #: Names of nodes that are not told their name begin so.
    name_prefix: str
    template: Template | None = None
    strategy: NodeStrategy | None = None


@dataclass(frozen=True, slots=True)
class CreateNamespaces:
    opcode: ClassVar[str] = "createNamespaces"

    count: int
    prefix: str
    template: Template | None = None


@dataclass(frozen=True, slots=True)
class Volumes:
    """A claim and a volume for every pod, bound to each other from the start."""

    claim: Template
    volume: Template


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Pods, as fast as they can be created; a `createPodSets` becomes one of these per set."""

    opcode: ClassVar[str] = "createPods"

    count: int
    namespace: str
    template: Template | None = None
    volumes: Volumes | None = None
    #: Measure from the first create until all of them are scheduled.
    collect_metrics: bool = False
    #: Go on at once; a barrier may wait for them later.
    skip_wait: bool = False
    #: Delete the pods once all are scheduled and create as many again, for so long.
    steady_state_s: float | None = None


@dataclass(frozen=True, slots=True)
class CreateAny:
    opcode: ClassVar[str] = "createAny"

    count: int
    namespace: str
    template: Template


@dataclass(frozen=True, slots=True)
class UpdateAny:
    """Objects replaced, by name, and then their status."""

    opcode: ClassVar[str] = "updateAny"

    count: int
    namespace: str
    template: Template
    #: 0: as fast as possible.
    per_second: int = 0
    #: One, such as `resize`, instead of the object itself.
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class DeletePods:
    opcode: ClassVar[str] = "deletePods"

    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    #: 0: all in one request.
    per_second: int = 0
    #: Delete in the background.
    skip_wait: bool = False


@dataclass(frozen=True, slots=True)
class Churn:
    """Objects that come (and go) in the background until the workload ends."""

    opcode: ClassVar[str] = "churn"

    mode: ChurnMode
    namespace: str
    templates: tuple[Template, ...]
    #: How often objects are created, 0 for no end; when recreating, how many are there at most.
    number: int = 0
    interval_s: float = 0.5


@dataclass(frozen=True, slots=True)
class Barrier:
    """Waits for the pods of earlier operations that did not wait themselves."""

    opcode: ClassVar[str] = "barrier"

    #: Empty: all of them.
    namespaces: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    stage: Stage = Stage.SCHEDULED


@dataclass(frozen=True, slots=True)
class CreateResourceDriver:
    """A slice of devices for every node so far whose name matches."""

    opcode: ClassVar[str] = "createResourceDriver"

    driver: str
    #: A shell pattern.
    nodes: str
    devices: int


@dataclass(frozen=True, slots=True)
class AllocResourceClaims:
    """Allocates the claims of a namespace, or all of them, without pods, on random nodes."""

    opcode: ClassVar[str] = "allocResourceClaims"

    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Sleep:
    opcode: ClassVar[str] = "sleep"

    seconds: float


@dataclass(frozen=True, slots=True)
class StartCollectingMetrics:
    opcode: ClassVar[str] = "startCollectingMetrics"

    name: str
    namespaces: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StopCollectingMetrics:
    opcode: ClassVar[str] = "stopCollectingMetrics"


Operation: TypeAlias = (
    CreateNodes
    | CreateNamespaces
    | CreatePods
    | CreateAny
    | UpdateAny
    | DeletePods
    | Churn
    | Barrier
    | CreateResourceDriver
    | AllocResourceClaims
    | Sleep
    | StartCollectingMetrics
    | StopCollectingMetrics
)


@dataclass(frozen=True, slots=True)
class Workload:
    """One line of `go test -bench`: a test's operations with one set of parameters."""

    file: Path
    test: str
    name: str
    operations: tuple[Operation, ...]
    #: The test's, then the workload's own, as written.
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    labels: frozenset[str] = frozenset()
    params: Mapping[str, int | float | str | bool] = field(default_factory=dict)
    #: Pods per second (or what `threshold_metric` says) that upstream's CI demands; 0 is nothing.
    threshold: float = 0.0
    #: Instead of `threshold` where the file is run under such a topic.
    topic_thresholds: Mapping[str, float] = field(default_factory=dict)
    threshold_metric: str = "SchedulingThroughput"
    scheduler_config: Path | None = None
    #: Why this workload cannot be played; its operations are then empty. "" if it can.
    cannot_play: str = ""

    @property
    def title(self) -> str:
        """`SchedulingBasic/5000Nodes_10000Pods_QueueingHintsEnabled`."""
        return f"{self.test}/{self.name}"

    @property
    def nodes(self) -> int:
        """Nodes created in all, not counting those of a churn."""
        return sum(each.count for each in self.operations if isinstance(each, CreateNodes))

    @property
    def pods(self) -> int:
        """Pods created in all, a steady state's counted once, a churn's not at all."""
        return sum(each.count for each in self.operations if isinstance(each, CreatePods))

    @property
    def measured(self) -> int:
        """Pods whose scheduling is measured, by operations that collect metrics or between two."""
        total = 0
        collecting: StartCollectingMetrics | None = None
        for each in self.operations:
            match each:
                case StartCollectingMetrics():
                    collecting = each
                case StopCollectingMetrics():
                    collecting = None
                case CreatePods() if each.collect_metrics or _is_meant(collecting, each):
                    total += each.count
        return total

    @property
    def has_devices(self) -> bool:
        """Whether it has devices; claims from templates are then made by a controller."""
        return any(
            isinstance(each, CreateResourceDriver)
            or (isinstance(each, CreateAny) and each.template.kind == "ResourceClaimTemplate")
            for each in self.operations
        )

    @property
    def is_steady(self) -> bool:
        """Whether pods come and go, so that their number is not known before."""
        return any(
            isinstance(each, CreatePods) and each.steady_state_s is not None
            for each in self.operations
        )

    @property
    def measures(self) -> bool:
        """Whether any of its operations measures something."""
        return any(
            isinstance(each, StartCollectingMetrics) or getattr(each, "collect_metrics", False)
            for each in self.operations
        )

    @property
    def scheduler_feature_gates(self) -> Mapping[str, bool]:
        """The gates that scheduler_perf starts kube-scheduler with.

        It turns OpportunisticBatching off unless a workload asks for it or for the behaviour
        before queueing hints (`emulated_version`).
        """
        gates = dict(self.feature_gates)
        if self.emulated_version is None:
            gates.setdefault("OpportunisticBatching", False)
        return gates

    @property
    def emulated_version(self) -> str | None:
        """The Kubernetes version that kube-scheduler must emulate to run without queueing hints."""
        return "1.33" if self.feature_gates.get("SchedulerQueueingHints") is False else None


def _is_meant(collecting: StartCollectingMetrics | None, pods: CreatePods) -> bool:
    """Whether it measures these pods; labels are those of the first of them."""
    if collecting is None or pods.namespace not in collecting.namespaces:
        return False
    labels: dict[str, str] = {}
    if pods.template is not None:
        labels = pods.template.build(0, pods.count).get("metadata", {}).get("labels", {})
    return collecting.labels.items() <= labels.items()
