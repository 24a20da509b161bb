"""What can be claimed about pods and nodes: one small class each.

A claim describes itself in words and checks itself against the cluster. Made by `expectations`,
which selects the pods. What must stay true: a claim is checked with at least one pod unless it sets
`may_be_none`, and the text of a failed check explains what was found instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Protocol

from stowplan.sim.scenarios.actions import Json
from stowplan.sim.scenarios.facts import (
    FINISHED_PHASES,
    ClaimResult,
    ClusterState,
    all_of,
    domains,
    is_or_are,
    is_ready,
    label_words,
    message_of,
    name_in,
    named,
    node_of,
    one_of,
    phase_of,
    where_is,
)


class PodCheck(Protocol):
    """A claim about the selected pods."""

    def words(self, is_one: bool) -> str: ...

    def look(self, pods: Sequence[Json], view: ClusterState) -> ClaimResult: ...


class NodeCheck(Protocol):
    """A claim about one node."""

    def words(self) -> str: ...

    def look(self, node: Json, view: ClusterState) -> ClaimResult: ...


# Claims about pods


@dataclass(frozen=True, slots=True)
class On:
    """All are on one of these nodes, or (`not_on`) none is."""

    nodes: tuple[str, ...]
    not_on: bool = False

    def words(self, is_one: bool) -> str:
        names = one_of(self.nodes)
        return f"{is_or_are(is_one)} {'not ' if self.not_on else ''}on {names}"

    def look(self, pods: Sequence[Json], view: ClusterState) -> ClaimResult:
        if self.not_on:
            for name in self.nodes:
                if not any(fnmatchcase(node, name) for node in view.seen_nodes):
                    return ClaimResult(False, f"there never was a node {name}")

        def is_so(pod: Json) -> bool:
            node = node_of(pod)
            if self.not_on:
                return not any(fnmatchcase(node, name) for name in self.nodes)
            return bool(node) and any(fnmatchcase(node, name) for name in self.nodes)

        return all_of(pods, is_so, where_is)


@dataclass(frozen=True, slots=True)
class Pending:
    """All have no node, and the scheduler's message has this part."""

    message: str = ""

    def words(self, is_one: bool) -> str:
        because = f": {self.message}" if self.message else ""
        return f"{is_or_are(is_one)} pending{because}"

    def look(self, pods: Sequence[Json], view: ClusterState) -> ClaimResult:
        return all_of(
            pods, lambda pod: not node_of(pod) and self.message in message_of(pod), where_is
        )


@dataclass(frozen=True, slots=True)
class Amount:
    """A number within bounds."""

    least: int = 0
    most: int | None = None

    def has(self, number: int) -> bool:
        return number >= self.least and (self.most is None or number <= self.most)

    def __str__(self) -> str:
        if self.most == self.least:
            return str(self.least)
        if self.most is None:
            return f"at least {self.least}"
        return f"{self.least} to {self.most}" if self.least else f"at most {self.most}"


@dataclass(frozen=True, slots=True)
class IsBound:
    """So many of the pods have a node; None: all of them."""

    amount: Amount | None = None

    @property
    def may_be_none(self) -> bool:
        return self.amount is not None

    def words(self, is_one: bool) -> str:
        if self.amount is None:
            return f"{is_or_are(is_one)} bound"
        return f"are bound, {self.amount} of them"

    def look(self, pods: Sequence[Json], view: ClusterState) -> ClaimResult:
        if self.amount is None:
            return all_of(pods, lambda pod: bool(node_of(pod)), where_is)
        number = sum(bool(node_of(pod)) for pod in pods)
        return ClaimResult(self.amount.has(number), f"{number} of {len(pods)} are bound")


@dataclass(frozen=True, slots=True)
class Count:
    amount: Amount
    may_be_none = True

    def words(self, is_one: bool) -> str:
        return f"are there, {self.amount} of them"

    def look(self, pods: Sequence[Json], view: ClusterState) -> ClaimResult:
        return ClaimResult(self.amount.has(len(pods)), f"there are {len(pods)}")


@dataclass(frozen=True, slots=True)
class IsGone:
    may_be_none = True

    def words(self, is_one: bool) -> str:
        return f"{is_or_are(is_one)} gone"

    def look(self, pods: Sequence[Json], view: ClusterState) -> ClaimResult:
        return ClaimResult(not pods, f"still there: {named(pods, where_is)}" if pods else "gone")


@dataclass(frozen=True, slots=True)
class Phase:
    phases: tuple[str, ...]

    def words(self, is_one: bool) -> str:
        return f"{is_or_are(is_one)} {' or '.join(self.phases)}"

    def look(self, pods: Sequence[Json], view: ClusterState) -> ClaimResult:
        return all_of(pods, lambda pod: phase_of(pod) in self.phases, phase_of)


@dataclass(frozen=True, slots=True)
class Nominated:
    node: str

    def words(self, is_one: bool) -> str:
        return f"{is_or_are(is_one)} nominated to {self.node}"

    def look(self, pods: Sequence[Json], view: ClusterState) -> ClaimResult:
        def nomination(pod: Json) -> str:
            return str((pod.get("status") or {}).get("nominatedNodeName", ""))

        return all_of(
            pods,
            lambda pod: nomination(pod) == self.node,
            lambda pod: nomination(pod) or "nowhere",
        )


@dataclass(frozen=True, slots=True)
class Preempted:
    """The pods were preempted by a pod of higher priority."""

    by: str = ""
    may_be_none = True

    def words(self, is_one: bool) -> str:
        return f"{is_or_are(is_one)} preempted{f' by {self.by}' if self.by else ''}"

    def look(self, pods: Sequence[Json], view: ClusterState) -> ClaimResult:
        """Check the preemptors. The pods are gone; the view holds the selected victims only."""
        if not view.preempted:
            return ClaimResult(False, "no pod preempted it")
        strangers = [
            f"{name_in(victim)} by {name_in(preemptor)}"
            for victim, preemptor in view.preempted.items()
            if self.by and name_in(preemptor) != name_in(self.by)
        ]
        return ClaimResult(not strangers, ", ".join(strangers or view.preempted))


@dataclass(frozen=True, slots=True)
class IsSpread:
    """The pods are spread over a node label's values; counts differ by at most `skew`."""

    over: str
    skew: int

    def words(self, is_one: bool) -> str:
        verb = is_or_are(is_one)
        return f"{verb} spread over {label_words(self.over)} with a skew of at most {self.skew}"

    def look(self, pods: Sequence[Json], view: ClusterState) -> ClaimResult:
        counts, homeless = domains(self.over, pods, view)
        told = ", ".join(f"{name}: {count}" for name, count in sorted(counts.items()))
        if homeless:
            return ClaimResult(False, f"{named(homeless, where_is)}; {told}")
        if not counts:
            return ClaimResult(False, f"no node has the label {self.over}")
        return ClaimResult(max(counts.values()) - min(counts.values()) <= self.skew, told)


@dataclass(frozen=True, slots=True)
class Together:
    """All share one value of a node label; or (`apart`) no two do."""

    key: str
    apart: bool = False

    def words(self, is_one: bool) -> str:
        how = "apart" if self.apart else "together"
        return f"{is_or_are(is_one)} {how} by {label_words(self.key)}"

    def look(self, pods: Sequence[Json], view: ClusterState) -> ClaimResult:
        counts, homeless = domains(self.key, pods, view)
        if homeless:
            return ClaimResult(False, named(homeless, where_is))
        used = {name: count for name, count in counts.items() if count}
        told = ", ".join(f"{name}: {count}" for name, count in sorted(used.items()))
        return ClaimResult(max(used.values()) == 1 if self.apart else len(used) == 1, told)


# Claims about nodes


@dataclass(frozen=True, slots=True)
class Holds:
    """The node holds exactly these pods, or so many."""

    pods: tuple[str, ...] | None = None
    amount: Amount | None = None

    def words(self) -> str:
        if self.pods is None:
            return f"holds {self.amount} pods"
        return f"holds {', '.join(self.pods) or 'no pod'}"

    def look(self, node: Json, view: ClusterState) -> ClaimResult:
        here = [pod for pod in view.pods if node_of(pod) == node["metadata"]["name"]]
        here = [pod for pod in here if phase_of(pod) not in FINISHED_PHASES]
        if self.amount is not None:
            return ClaimResult(self.amount.has(len(here)), f"it holds {len(here)}")
        names = sorted(pod["metadata"]["name"] for pod in here)
        return ClaimResult(
            names == sorted(self.pods or ()), f"it holds {', '.join(names) or 'none'}"
        )


@dataclass(frozen=True, slots=True)
class Flag:
    """Ready, or closed to new pods, or not."""

    name: str
    wanted: bool

    def words(self) -> str:
        return f"is {'' if self.wanted else 'not '}{self.name}"

    def look(self, node: Json, view: ClusterState) -> ClaimResult:
        if self.name == "ready":
            is_so = is_ready(node)
        else:
            is_so = bool((node.get("spec") or {}).get("unschedulable"))
        return ClaimResult(is_so is self.wanted, f"it is {'' if is_so else 'not '}{self.name}")


@dataclass(frozen=True, slots=True)
class NodeGone:
    def words(self) -> str:
        return "is gone"

    def look(self, node: Json, view: ClusterState) -> ClaimResult:
        return ClaimResult(False, "it is there")
