"""What an objection rests on, as data: amounts, labels, other pods, domains, volumes."""

from __future__ import annotations

import msgspec


class Answer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base class: fields in lower camel case, and only those that say something."""


class Shortage(Answer, frozen=True):
    """A resource that a node has too little of, in the units that manifests use."""

    resource: str
    requested: str
    free: str
    offered: str
    short: str


class UnmetLabel(Answer, frozen=True):
    """A requirement on a node's labels or name that the node does not meet."""

    requirement: str
    key: str
    #: The node's own value; None if it has none.
    value: str | None = None
    #: Values that nodes have at this key, those most like the wanted one first.
    others: tuple[str, ...] = ()


class PodOnNode(Answer, frozen=True):
    """A pod, and the node that it is on."""

    pod: str
    node: str


class AffinityConflict(Answer, frozen=True):
    """A required affinity or anti-affinity term that a node does not satisfy."""

    #: podAffinity, podAntiAffinity, or podAntiAffinity of the pods that are listed.
    kind: str
    #: The label selector of the term.
    selector: str
    topology_key: str
    #: The node's value of the topology key; None if it has none.
    domain: str | None = None
    #: True if the term is that of the pods on nodes, not that of the pending pod.
    is_of_others: bool = False
    #: The first of the pods that conflict, or, of an affinity, the first that match elsewhere.
    pods: tuple[PodOnNode, ...] = ()
    #: How many such pods there are.
    pod_count: int = 0


class SpreadConflict(Answer, frozen=True):
    """A topology spread constraint that a node would break."""

    topology_key: str
    selector: str
    max_skew: int
    #: The node's value of the topology key; None if it has none.
    domain: str | None = None
    #: Matching pods by domain: the emptiest domains, and the node's own.
    counts: dict[str, int] = {}
    domain_count: int = 0
    #: The skew that the pod would make; more than `max_skew`.
    skew: int = 0
    #: Where there are fewer domains than this, the smallest count is taken to be 0.
    min_domains: int = 1


class PortConflict(Answer, frozen=True):
    """A host port that is taken."""

    port: int
    protocol: str
    pod: str


class VolumeConflict(Answer, frozen=True):
    """A claim or volume that cannot be had on a node."""

    claim: str = ""
    volume: str = ""
    storage_class: str = ""
    #: Where the volume can be used, as a node selector.
    only_where: str = ""
    #: How many nodes can use the volume.
    nodes: int | None = None
    #: The pod that has it for itself.
    used_by: PodOnNode | None = None
    #: Of a driver: volumes that are attached, how many may be, and how many more are needed.
    driver: str = ""
    attached: int = 0
    limit: int | None = None
    needed: int = 0


class DeviceShortage(Answer, frozen=True):
    """A request of a resource claim that a node has too few devices for."""

    claim: str
    request: str
    device_class: str
    #: How many devices the request asks for; None: all that match.
    needed: int | None = None
    #: Devices of the class that the node can use.
    offered: int = 0
    free: int = 0
    taken: int = 0
    #: Pods that have those taken, or claims that no pod uses.
    taken_by: tuple[str, ...] = ()
    #: How many devices a selector of the request does not match, by selector.
    unmatched: dict[str, int] = {}
    #: Devices with a taint that the request does not tolerate.
    tainted: int = 0
    #: `key=value:effect`.
    taints: tuple[str, ...] = ()
    #: Devices for several claims that have too little capacity left.
    full: int = 0


class Obstacle(Answer, frozen=True):
    """One plugin's objection to one node."""

    plugin: str
    reason: str
    #: The numbers or labels behind the reason, in words. The rest is the same as data.
    detail: str = ""
    shortages: tuple[Shortage, ...] = ()
    labels: tuple[UnmetLabel, ...] = ()
    #: `key=value:effect`.
    taints: tuple[str, ...] = ()
    affinity: tuple[AffinityConflict, ...] = ()
    spread: tuple[SpreadConflict, ...] = ()
    ports: tuple[PortConflict, ...] = ()
    volumes: tuple[VolumeConflict, ...] = ()
    devices: tuple[DeviceShortage, ...] = ()
