"""One scheduling attempt as readers of the ledger get it: over HTTP, from its file, as a text.

Only data, so that `stowplan explain` starts quickly: it loads none of the scheduler for them.
"""

from __future__ import annotations

from typing import Final

import msgspec

#: Bytes of the ledger's file, unless a flag says otherwise.
DEFAULT_FILE_SIZE: Final = 256 * 1024 * 1024
#: The result of an attempt that is not over: the pod has a node, and waits for permission or
#: is being bound.
BINDING: Final = "binding"


class Recorded(msgspec.Struct, rename="camel", omit_defaults=True):
    """Base class: fields in lower camel case, and only those that say something."""


class RecordedReason(Recorded):
    """What a plugin said about some nodes."""

    plugin: str
    reason: str
    nodes: int
    #: The nodes as `node_names` folds them, `*` for all; empty if they were not kept.
    names: str = ""
    names_left_out: int = 0


class RecordedScore(Recorded):
    """A node's weighted score, in all and by plugin."""

    node: str
    total: int
    by_plugin: dict[str, int] = {}


class RecordedEviction(Recorded):
    """The preemption plan: the pods to evict, the most important first."""

    node: str
    victims: list[str]
    victims_left_out: int = 0


class Details(Recorded):
    """One decision."""

    #: Nodes that were filtered, and those that passed.
    evaluated_nodes: int = 0
    feasible_nodes: int = 0
    #: What the pod asks for, its priority, and the fields of its spec that restrict its place.
    requests: dict[str, str] = {}
    priority: int = 0
    constraints: list[str] = []
    #: Seconds in the queue since it came there, or came back.
    waited: float = 0.0
    #: Seconds by extension point.
    durations: dict[str, float] = {}
    #: How many nodes each plugin refused.
    refused: dict[str, int] = {}
    #: Largest group of nodes first.
    reasons: list[RecordedReason] = []
    #: Highest first.
    scores: list[RecordedScore] = []
    nominated_node: str = ""
    eviction: RecordedEviction | None = None
    #: True if scores, refusals or node names were left out, because attempts were too many.
    is_shortened: bool = False


class Attempt(Recorded):
    """One attempt, as readers get it."""

    #: Wall time of the decision.
    time: float
    pod: str
    uid: str
    attempt: int
    profile: str
    #: scheduled, unschedulable, error, or binding while it goes on.
    result: str
    #: The chosen node.
    node: str = ""
    message: str = ""
    #: From the beginning of the attempt to its end.
    seconds: float = 0.0
    #: Plugins whose cluster events bring the pod back; empty after an error.
    retried_by: tuple[str, ...] = ()
    #: Wall times: the pod is not tried before the first unless the queue is empty, and is tried
    #: by the second although nothing happens.
    backoff_until: float | None = None
    retry_by: float | None = None
    details: Details | None = None
