"""What a scenario expects of its cluster: the entries of `expect:` and of `wait: until`.

`read_expected` makes them for `document`; `steps` evaluates them. Each takes a `ClusterState` and
returns a `ClaimResult` with a text for people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, TypeAlias

from stowplan.sim.scenarios.actions import Json, ObjectPattern, Place
from stowplan.sim.scenarios.claims import (
    Amount,
    Count,
    Flag,
    Holds,
    IsBound,
    IsGone,
    IsSpread,
    NodeCheck,
    NodeGone,
    Nominated,
    On,
    Pending,
    Phase,
    PodCheck,
    Preempted,
    Together,
)
from stowplan.sim.scenarios.facts import (
    ClaimResult,
    ClusterState,
    first_difference,
    key_of,
    shortened,
    worst,
)
from stowplan.sim.scenarios.manifests import HOSTNAME, REGION, ZONE, plain
from stowplan.sim.scenarios.references import read_reference
from stowplan.workloads.fields import Fields


@dataclass(frozen=True, slots=True)
class Selection:
    """Pods by name, by pattern, by labels."""

    names: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Empty: the scenario's own.
    namespace: str = ""

    def of(self, view: ClusterState) -> list[Json]:
        return [pod for pod in view.pods if self._has(pod, view)]

    def ever_was(self, view: ClusterState) -> bool:
        """True if it means a pod that exists or existed at some time."""
        for key, labels in view.seen_pods.items():
            namespace, _, name = key.partition("/")
            metadata = {"namespace": namespace, "name": name, "labels": labels}
            if self._has({"metadata": metadata}, view):
                return True
        return False

    def has_key(self, key: str, view: ClusterState) -> bool:
        """Whether it means the pod of that name, be it there or not."""
        namespace, _, name = key.partition("/")
        return not self.names or any(
            fnmatchcase(name, asked) and fnmatchcase(namespace, place)
            for place, asked in self._asked(view)
        )

    def _has(self, pod: Json, view: ClusterState) -> bool:
        if self.names and not self.has_key(key_of(pod), view):
            return False
        own: Mapping[str, str] = pod["metadata"].get("labels") or {}
        is_here = self.names or pod["metadata"]["namespace"] == view.place(self.namespace)
        return bool(is_here) and self.labels.items() <= own.items()

    def _asked(self, view: ClusterState) -> list[tuple[str, str]]:
        """Namespace and name; a name may say its own, as in shop/web-0."""
        pairs = [name.rpartition("/") for name in self.names]
        return [(view.place(place or self.namespace), name) for place, _, name in pairs]

    def __str__(self) -> str:
        parts = [*self.names]
        if self.labels:
            parts.append(",".join(f"{key}={value}" for key, value in self.labels.items()))
        text = ", ".join(parts) or "all pods"
        return f"{text} in {self.namespace}" if self.namespace else text

    @property
    def is_one(self) -> bool:
        return len(self.names) == 1 and not any(sign in self.names[0] for sign in "*?[")


@dataclass(frozen=True, slots=True)
class OfPods:
    selection: Selection
    claims: tuple[PodCheck, ...]

    def __str__(self) -> str:
        words = " and ".join(claim.words(self.selection.is_one) for claim in self.claims)
        return f"{self.selection} {words}"

    def look(self, view: ClusterState) -> ClaimResult:
        pods = self.selection.of(view)
        victims = {
            victim: preemptor
            for victim, preemptor in view.preempted.items()
            if self.selection.has_key(victim, view)
        }
        narrowed = replace(view, preempted=victims)
        return worst([self._check(claim, pods, narrowed) for claim in self.claims])

    def _check(self, claim: PodCheck, pods: Sequence[Json], view: ClusterState) -> ClaimResult:
        if pods:
            return claim.look(pods, view)
        if not getattr(claim, "may_be_none", False):
            return ClaimResult(False, "there is no such pod")
        # A misspelt name must not make an expectation come true; an explicit 0 is none.
        if claim != Count(Amount(0, 0)) and not self.selection.ever_was(view):
            return ClaimResult(False, "there never was such a pod")
        return claim.look(pods, view)


@dataclass(frozen=True, slots=True)
class OfNode:
    node: str
    claims: tuple[NodeCheck, ...]

    def __str__(self) -> str:
        return f"{self.node} {' and '.join(claim.words() for claim in self.claims)}"

    def look(self, view: ClusterState) -> ClaimResult:
        for node in view.nodes:
            if node["metadata"]["name"] == self.node:
                return worst([claim.look(node, view) for claim in self.claims])
        if self.node not in view.seen_nodes:
            return ClaimResult(False, "there never was such a node")
        is_met = any(isinstance(claim, NodeGone) for claim in self.claims)
        return ClaimResult(is_met, "there is no such node")


@dataclass(frozen=True, slots=True)
class OfObject:
    target: ObjectPattern
    #: What the object must have; None: it must not be there.
    has: Json | None

    def __str__(self) -> str:
        return f"{self.target} {'is gone' if self.has is None else f'has {shortened(self.has)}'}"

    def look(self, view: ClusterState) -> ClaimResult:
        if self.target not in view.objects:
            return ClaimResult(False, "there never was such an object")
        there = view.objects[self.target]
        if there is None:
            return ClaimResult(self.has is None, "there is no such object")
        if self.has is None:
            return ClaimResult(False, "it is there")
        path = first_difference(self.has, there)
        if path is None:
            return ClaimResult(True)
        return ClaimResult(False, f"{path[0]} is {shortened(path[1])}")


Subject: TypeAlias = OfPods | OfNode | OfObject


@dataclass(frozen=True, slots=True)
class Expected:
    """One entry of a scenario's `expect`."""

    subject: Subject
    place: Place
    #: What its author calls it.
    text: str = ""

    def __str__(self) -> str:
        return self.text or str(self.subject)

    def look(self, view: ClusterState) -> ClaimResult:
        return self.subject.look(view)

    @property
    def objects(self) -> tuple[ObjectPattern, ...]:
        """The objects that the view must hold besides pods and nodes."""
        return (self.subject.target,) if isinstance(self.subject, OfObject) else ()


# Reading

_POD_FIELDS: Final = (
    *("pod", "pods", "text", "on", "notOn", "pending", "bound", "count", "phase", "nominated"),
    *("preempted", "gone", "spread", "together", "apart"),
)
_NODE_FIELDS: Final = ("node", "text", "holds", "ready", "unschedulable", "gone")
_OBJECT_FIELDS: Final = ("object", "text", "has", "gone")
_SUBJECTS: Final = {
    "pod": _POD_FIELDS,
    "pods": _POD_FIELDS,
    "node": _NODE_FIELDS,
    "object": _OBJECT_FIELDS,
}
_SHORT_LABELS: Final = {"hostname": HOSTNAME, "node": HOSTNAME, "zone": ZONE, "region": REGION}


def read_expected(file: Path, written: object, what: str) -> Expected:
    """One entry; ConfigError with file, line, `what` and field where it is wrong."""
    names = [str(name) for name in written] if isinstance(written, dict) else []
    known = next((fields for subject, fields in _SUBJECTS.items() if subject in names), None)
    if known is None:
        fields = Fields(file, written, what, names)
        fields.fail("names no subject: write `pod`, `pods`, `node` or `object`")
    fields = Fields(file, written, what, known)
    subject: Subject
    if "object" in fields:
        subject = _read_object(fields)
    elif "node" in fields:
        subject = OfNode(fields.required_text("node"), tuple(_node_claims(fields)))
    else:
        subject = OfPods(_read_selection(file, fields, what), tuple(_pod_claims(fields)))
    if not isinstance(subject, OfObject) and not subject.claims:
        rest = [name for name in known if name not in ("pod", "pods", "node", "text")]
        fields.fail(f"expects nothing: write one of {', '.join(rest)}")
    if any(isinstance(claim, Preempted) for claim in getattr(subject, "claims", ())):
        assert isinstance(subject, OfPods)
        if not subject.selection.names:
            fields.fail("victims are gone with their labels: name them", at="preempted")
    return Expected(subject, Place(file, fields.line(), what), fields.text("text"))


def _read_selection(file: Path, fields: Fields, what: str) -> Selection:
    if "pod" in fields and "pods" in fields:
        fields.fail("`pod` or `pods`, not both", at="pods")
    name = "pod" if "pod" in fields else "pods"
    written = fields.value(name)
    if isinstance(written, str):
        return Selection((written,))
    if isinstance(written, list) and written and all(isinstance(each, str) for each in written):
        return Selection(tuple(written))
    if not isinstance(written, dict):
        fields.fail(f"`{name}`: write a name, a list of names, or labels: {{...}}", at=name)
    inner = Fields(file, written, f"{what}, {name}", ("names", "labels", "namespace"))
    return Selection(inner.texts("names"), inner.table("labels", str), inner.text("namespace"))


def _pod_claims(fields: Fields) -> list[PodCheck]:
    claims: list[PodCheck] = []
    if "on" in fields:
        claims.append(On(_names(fields, "on")))
    if "notOn" in fields:
        claims.append(On(_names(fields, "notOn"), not_on=True))
    if "pending" in fields:
        claims.append(Pending(_true_or_text(fields, "pending")))
    if "bound" in fields:
        is_all = fields.value("bound") is True
        claims.append(IsBound(None if is_all else _amount(fields, "bound")))
    if "count" in fields:
        claims.append(Count(_amount(fields, "count")))
    if "phase" in fields:
        claims.append(Phase(_names(fields, "phase")))
    if "nominated" in fields:
        claims.append(Nominated(fields.required_text("nominated")))
    if "preempted" in fields:
        claims.append(Preempted(_true_or_text(fields, "preempted")))
    if "gone" in fields and _must_be_true(fields, "gone"):
        claims.append(IsGone())
    if "spread" in fields:
        claims.append(_spread(fields))
    claims += [
        Together(_label_key(fields.required_text(name)), name == "apart")
        for name in ("together", "apart")
        if name in fields
    ]
    return claims


def _node_claims(fields: Fields) -> list[NodeCheck]:
    claims: list[NodeCheck] = []
    if "holds" in fields:
        written = fields.value("holds")
        if isinstance(written, list | str):
            claims.append(Holds(pods=_names(fields, "holds")))
        else:
            claims.append(Holds(amount=_amount(fields, "holds")))
    claims += [
        Flag(name, fields.flag(name)) for name in ("ready", "unschedulable") if name in fields
    ]
    if "gone" in fields and _must_be_true(fields, "gone"):
        claims.append(NodeGone())
    return claims


def _read_object(fields: Fields) -> OfObject:
    target = read_reference(fields.value("object"), fields, "object")
    if target.is_pattern:
        fields.fail("`object` is one object, not a pattern", at="object")
    if ("has" in fields) == ("gone" in fields):
        fields.fail("write `has: {...}` or `gone: true`")
    if "gone" in fields:
        _must_be_true(fields, "gone")
        return OfObject(target, None)
    wanted = fields.value("has")
    if not isinstance(wanted, dict):
        fields.fail("`has` must be a part of the object, as a mapping", at="has")
    return OfObject(target, plain(wanted))


def _spread(fields: Fields) -> IsSpread:
    written = fields.value("spread")
    if isinstance(written, str):
        return IsSpread(_label_key(written), 1)
    inner = fields.inner("spread", ("over", "maxSkew"))
    return IsSpread(_label_key(inner.required_text("over")), inner.whole("maxSkew", 1))


def _label_key(text: str) -> str:
    return _SHORT_LABELS.get(text, text)


def _names(fields: Fields, name: str) -> tuple[str, ...]:
    written = fields.value(name)
    return (written,) if isinstance(written, str) else fields.texts(name)


def _true_or_text(fields: Fields, name: str) -> str:
    written = fields.value(name)
    if written is True:
        return ""
    if not isinstance(written, str) or not written:
        fields.fail(f"`{name}` must be true or a text, not `{written}`", at=name)
    return written


def _must_be_true(fields: Fields, name: str) -> bool:
    if fields.value(name) is not True:
        fields.fail(f"`{name}` can only be true; leave it out", at=name)
    return True


def _amount(fields: Fields, name: str) -> Amount:
    written: Any = fields.value(name)
    if isinstance(written, dict):
        inner = fields.inner(name, ("atLeast", "atMost"))
        if not ("atLeast" in inner or "atMost" in inner):
            inner.fail("write `atLeast`, `atMost` or both")
        most = inner.whole("atMost") if "atMost" in inner else None
        return Amount(inner.whole("atLeast"), most)
    number = fields.whole(name)
    return Amount(number, number)
