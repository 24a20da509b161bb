"""The types of kube-scheduler's extender protocol (k8s.io/kube-scheduler/extender/v1).

Both sides use them: the scheduler's client through `extender_codec`, the extender service
(`extender.reading`, `extender.writing`) and its algorithms, for which `stowplan.extender` exports
them. The field names are Go's, because they are the names on the wire; their order is that of the
WCA scheduler, whose algorithms create some of them by position. Invariant: what an algorithm may
keep of a request (a pod, nodes) is plain dicts and lists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

#: An object of the Kubernetes API, decoded from JSON.
Object: TypeAlias = dict[str, Any]

MIN_SCORE: Final = 0
MAX_SCORE: Final = 10


@dataclass
class ExtenderArgs:
    """Arguments of filter and prioritize: a pod and its candidate nodes.

    kube-scheduler sends either whole nodes or only their names, depending on nodeCacheCapable in
    its configuration. `NodeNames` is always set; `Nodes` is None if only names were sent.
    """

    Nodes: list[Object] | None
    Pod: Object
    NodeNames: list[str]


@dataclass
class ExtenderFilterResult:
    """Result of filter: the nodes that fit, and the reasons of those that do not.

    `NodeNames` is enough even if whole nodes were sent; `Nodes` takes precedence. Evicting other
    pods may help on FailedNodes, but not on FailedAndUnresolvableNodes. A text in `Error` fails the
    pod's attempt as a whole.
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
    """The score of a node, from 0 to 10."""

    # Every result has one for every node. Creating a Struct takes a third of a dataclass's time;
    # for the module `dataclasses` it is a dataclass nevertheless.
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
    """Arguments of preempt: a pod, and its victims on each candidate node.

    `NodeNameToMetaVictims` is always set; `NodeNameToVictims`, with whole pods, only without
    nodeCacheCapable.
    """

    Pod: Object
    NodeNameToVictims: dict[str, Victims] | None = None
    NodeNameToMetaVictims: dict[str, MetaVictims] = field(default_factory=dict)


@dataclass
class ExtenderPreemptionResult:
    """Result of preempt: the remaining candidate nodes, each with its victims."""

    NodeNameToMetaVictims: dict[str, MetaVictims] = field(default_factory=dict)


@dataclass
class ExtenderBindingArgs:
    """Arguments of bind: a pod, and the node to bind it to."""

    PodName: str
    PodNamespace: str
    PodUID: str
    Node: str


@dataclass
class ExtenderBindingResult:
    """Result of bind; the pod is bound if `Error` is empty."""

    Error: str = ""
