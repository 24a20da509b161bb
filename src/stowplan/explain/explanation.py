"""The answer of `stowplan explain`, as data. `text` shows it to people."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from stowplan.explain.facts import Answer, Obstacle


class State(StrEnum):
    """What a pod is waiting for, if anything."""

    PENDING = "Pending"
    GATED = "SchedulingGated"
    NOMINATED = "WaitingForVictims"
    SCHEDULED = "Scheduled"
    TERMINATING = "Terminating"
    FINISHED = "Finished"


class Reason(Answer, frozen=True):
    """What a plugin says about some nodes."""

    nodes: int
    plugin: str
    reason: str
    #: The first of the nodes, by name.
    examples: tuple[str, ...] = ()
    #: Whether evicting pods might help.
    eviction_may_help: bool = False


class NodeAnswer(Answer, frozen=True):
    """One node: what keeps the pod away from it, or how it scores."""

    node: str
    obstacles: tuple[Obstacle, ...] = ()
    total: int | None = None
    scores: dict[str, int] = msgspec.field(default_factory=dict)


class Fix(Answer, frozen=True):
    """A change that would place the pod, proven by the real decision."""

    kind: str
    text: str
    #: Where the pod would go.
    node: str
    #: A command that makes the change, where one does.
    command: str = ""


class Preemption(Answer, frozen=True):
    """Whether evicting pods of lower priority would place the pod, by the real preemption code."""

    would_help: bool = False
    #: The node that would be cleared, the pods that would be evicted there, and their number.
    node: str = ""
    victims: tuple[str, ...] = ()
    victim_count: int = 0
    #: How many of them a disruption budget protects.
    violations: int = 0
    #: What it would do, or why it would not help, in a sentence.
    text: str = ""


class Waiting(Answer, frozen=True):
    """Where a pod is in the queue of a running scheduler."""

    #: active, backoff, unschedulable, gated, permit (a plugin holds it) or binding.
    place: str
    #: Attempts so far, the one under way included.
    attempts: int = 0
    #: Since the last attempt ended, or since the pod was queued.
    seconds: float = 0.0
    #: Until the next attempt, if nothing happens before; None: it needs an event, or is next.
    next_try_seconds: float | None = None
    #: Seconds of backoff that are left; events do not bring the pod back sooner.
    backoff_seconds: float = 0.0
    #: Plugins that hold the pod, or whose events bring it back.
    plugins: tuple[str, ...] = ()
    #: Why the pod is gated.
    message: str = ""


class Explanation(Answer, frozen=True):
    """Everything that is known about one pod."""

    pod: str
    #: The scheduler that the pod asks for.
    scheduler: str
    state: State
    #: One or two sentences: the state and its cause.
    summary: str
    #: What keeps the pod off most nodes; of one that fits, what is not known.
    cause: str = ""
    #: The node that the pod is on, or is nominated to.
    node: str = ""
    nodes: int = 0
    feasible_nodes: int = 0
    #: Largest group of nodes first.
    reasons: tuple[Reason, ...] = ()
    #: Of an unschedulable pod: the nodes that lack least.
    nearest: tuple[NodeAnswer, ...] = ()
    #: The best nodes and their scores, highest first.
    best: tuple[NodeAnswer, ...] = ()
    #: The cluster events that lead to another attempt.
    retried_on: tuple[str, ...] = ()
    #: The kind and name of the object that creates the pod: `deployment/web`; empty: none.
    owner: str = ""
    #: Of a pod that fits nowhere and waits for a node.
    preemption: Preemption | None = None
    #: What to look at next, where no plugin's numbers say it.
    advice: str = ""
    #: Cheapest first; None: not asked for (`--fix`).
    fixes: tuple[Fix, ...] | None = None
    #: The latest condition that the pod's scheduler has written.
    last_message: str = ""
    #: From a running scheduler alone.
    waiting: Waiting | None = None


class Comparison(Answer, frozen=True):
    """One node beside the best one."""

    pod: str
    node: NodeAnswer
    #: None if the pod fits nowhere.
    best: NodeAnswer | None
    #: Filters that accept the node.
    accepted_by: tuple[str, ...] = ()
    #: What is left out of the comparison.
    note: str = ""
