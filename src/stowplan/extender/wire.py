"""The types of kube-scheduler's extender protocol (k8s.io/kube-scheduler/extender/v1), public.

Algorithms get and give these; `reading` makes them from bodies, `writing` makes bodies from them.
The field names are Go's, because they are the names on the wire, and their order is that of the
WCA scheduler, whose algorithms make some of them by position. What must stay true: whatever an
algorithm may have kept of a request (a pod, nodes) is plain dicts and lists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

#: An object of the Kubernetes API as JSON has it.
Object: TypeAlias = dict[str, Any]

MIN_SCORE: Final = 0
MAX_SCORE: Final = 10


@dataclass
class ExtenderArgs:
    """What filter and prioritize are asked: a pod, and the nodes it could go to.

    kube-scheduler sends either whole nodes or only their names, as its configuration says
    (nodeCacheCapable). `NodeNames` is there both times; `Nodes` is None where only names were sent.
    """

    Nodes: list[Object] | None
    Pod: Object
    NodeNames: list[str]


@dataclass
class ExtenderFilterResult:
    """Which nodes stay, and why the others do not.

    `NodeNames` is enough also where whole nodes were sent; `Nodes`, if it is given, beats it.
    FailedNodes may fit once other pods have been evicted; FailedAndUnresolvableNodes may not. A
    text in `Error` fails the pod's attempt as a whole.
    """

    Nodes: list[Object] | None = None
    NodeNames: list[str] = field(default_factory=list)
    FailedNodes: dict[str, str] = field(default_factory=dict)
    Error: str = ""
    FailedAndUnresolvableNodes: dict[str, str] = field(default_factory=dict)


@dataclass
class _HostPriorityFields:
    Host: str
    Score: int


class HostPriority(msgspec.Struct, gc=False):
    """How well a node suits a pod, from 0 to 10."""

    # There is one for every node in every answer, which makes it most of the work of a simple
    # algorithm; a Struct is made in a third of a dataclass's time. To `dataclasses` it is one.
    __dataclass_fields__: ClassVar = _HostPriorityFields.__dataclass_fields__

    Host: str
    Score: int

    def __repr__(self) -> str:
        return f"{self.Host}={self.Score}"


@dataclass
class MetaPod:
    """A pod by its UID."""

    UID: str


@dataclass
class MetaVictims:
    """Pods to evict from a node, by their UIDs."""

    Pods: list[MetaPod] = field(default_factory=list)
    NumPDBViolations: int = 0


@dataclass
class Victims:
    """Pods to evict from a node, whole."""

    Pods: list[Object] = field(default_factory=list)
    NumPDBViolations: int = 0


@dataclass
class ExtenderPreemptionArgs:
    """What preempt is asked: a pod, and whom it would evict on each node that is thought of.

    `NodeNameToMetaVictims` is there always; `NodeNameToVictims`, with whole pods, only where
    kube-scheduler is told that the extender has no cache of its own.
    """

    Pod: Object
    NodeNameToVictims: dict[str, Victims] | None = None
    NodeNameToMetaVictims: dict[str, MetaVictims] = field(default_factory=dict)


@dataclass
class ExtenderPreemptionResult:
    """The nodes that stay candidates, each with the pods that would have to go."""

    NodeNameToMetaVictims: dict[str, MetaVictims] = field(default_factory=dict)


@dataclass
class ExtenderBindingArgs:
    """A pod, and the node that it is to be bound to."""

    PodName: str
    PodNamespace: str
    PodUID: str
    Node: str


@dataclass
class ExtenderBindingResult:
    """An empty `Error` says that the pod is bound."""

    Error: str = ""
