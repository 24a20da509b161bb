"""What `generate:` may say, read into plain data; docs/traces.md lists every field.

Called by `generate`. What must stay true: whatever a description says wrong is a ConfigError that
names the file, the line where there is one, and the field; nothing is drawn here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stowplan.sim.traces.amounts import memory_bytes, milli_cpus, milliseconds, pieces
from stowplan.sim.traces.distributions import Distribution, constant, distribution
from stowplan.sim.traces.manifests import plain, requests, taint, toleration
from stowplan.sim.traces.model import Disruption, DisruptionKind, Json
from stowplan.sim.traces.presets import PRESETS
from stowplan.workloads.fields import Fields, Located

KNOWN = (
    "preset",
    "seed",
    "namespace",
    "nodeCount",
    "podCount",
    "pools",
    "applications",
    "priorityClasses",
    "arrivals",
    "disruptions",
    "until",
    "resolution",
)
POOL = (
    "name",
    "count",
    "cpu",
    "memory",
    "pods",
    "gpu",
    "resources",
    "zones",
    "labels",
    "taints",
    "failures",
    "drains",
)
APPLICATION = (
    "name",
    "weight",
    "namespace",
    "initial",
    "replicas",
    "cpu",
    "memory",
    "gpu",
    "duration",
    "labels",
    "priorityClass",
    "nodeSelector",
    "tolerations",
    "spread",
    "apart",
    "together",
    "spec",
)
ARRIVALS = ("kind", "count", "over", "every", "size", "period", "peak", "swing")
ARRIVAL_KINDS = ("poisson", "uniform", "burst", "diurnal")
_VERBS: tuple[DisruptionKind, ...] = ("fail", "recover", "drain", "cordon", "uncordon")
_SYSTEM_CLASSES = ("system-cluster-critical", "system-node-critical")
#: Draws are rounded up to whole steps of these, so that pods have something in common.
_CPU_STEP, _MEMORY_STEP = 10, 2**20


@dataclass(frozen=True)
class Failures:
    """Failures of each node, independent, with exponential times up and down."""

    between_ms: int
    repair_ms: int


@dataclass(frozen=True)
class Drains:
    """Drains of the pool's nodes, one after the other, as in an upgrade."""

    every_ms: int
    lasts_ms: int


@dataclass(frozen=True)
class NodePool:
    name: str
    count: int
    offers: Mapping[str, str]
    zones: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Json, ...] = ()
    failures: Failures | None = None
    drains: Drains | None = None


@dataclass(frozen=True)
class Neighbours:
    """How pods of an application like to be placed towards each other."""

    by: str
    hard: bool
    max_skew: int = 1


@dataclass(frozen=True)
class Application:
    name: str
    weight: float
    namespace: str
    initial: int
    replicas: Distribution
    cpu: Distribution | None
    memory: Distribution | None
    gpu: Distribution | None
    duration: Distribution | None
    labels: Mapping[str, str]
    priority_class: str
    node_selector: Mapping[str, str]
    tolerations: tuple[Json, ...]
    spread: Neighbours | None
    apart: Neighbours | None
    together: Neighbours | None
    spec: Json


@dataclass(frozen=True)
class Arrivals:
    kind: str = "uniform"
    count: int = 0
    over_ms: int = 0
    every_ms: int = 0
    size: Distribution = field(default_factory=lambda: constant(1))
    period_ms: int = 0
    peak_ms: int = 0
    swing: float = 0.0


@dataclass(frozen=True)
class PriorityClass:
    name: str
    value: int
    preempts: bool


@dataclass(frozen=True)
class Description:
    seed: int
    pools: tuple[NodePool, ...]
    applications: tuple[Application, ...]
    priority_classes: tuple[PriorityClass, ...]
    arrivals: Arrivals
    #: Each with its place in the file.
    disruptions: tuple[tuple[Disruption, str], ...]
    #: Failures and drains go on until then, at least until the last arrival.
    until_ms: int
    #: Pods arrive, and run for, whole multiples of it.
    resolution_ms: int = 1


def read_description(value: object, file: Path) -> Description:
    """Read the mapping under `generate:`."""
    top = Fields(file, value, "generate", KNOWN)
    assert isinstance(value, dict)
    if "preset" in top:
        name = top.text("preset")
        if name not in PRESETS:
            top.fail(f"`preset`: there is no {name}; there are {', '.join(PRESETS)}", at="preset")
        preset = PRESETS[name]
        merged = _over(preset, value)
        if isinstance(value.get("arrivals"), dict):
            merged["arrivals"] = _over(preset["arrivals"], value["arrivals"])
        top = Fields(file, merged, f"generate (preset {name})", KNOWN)
    reader = _Reader(file, top)
    return reader.scaled(
        Description(
            seed=reader.number(top, "seed", 0),
            pools=reader.named("pools", reader.pool),
            applications=reader.named("applications", reader.application),
            priority_classes=reader.named("priorityClasses", reader.priority_class),
            arrivals=reader.arrivals(),
            disruptions=reader.disruptions(),
            until_ms=reader.time(top, "until"),
            resolution_ms=reader.time(top, "resolution") or 1,
        )
    )


def _over(preset: dict[str, Any], own: dict[str, Any]) -> Located:
    """What is written goes before the preset, and is found where it was written."""
    merged = Located()
    merged.update(preset | own)
    merged.line = getattr(own, "line", 0)
    merged.lines.update(getattr(own, "lines", {}))
    return merged


class _Reader:
    """One description's mappings."""

    def __init__(self, file: Path, top: Fields) -> None:
        self._file = file
        self._top = top
        self._namespace = top.text("namespace", "default")

    def named(self, name: str, read: Any) -> tuple[Any, ...]:
        """A list of items with unique names."""
        listed = self._top.items(name) if name in self._top else []
        made: dict[str, Any] = {}
        for number, value in enumerate(listed):
            what = f"generate, {name}[{number}]"
            each = read(value, what)
            if each.name in made:
                self._top.fail(
                    f"`{name}[{number}]`: the name {each.name} is taken already", at=name
                )
            made[each.name] = each
        return tuple(made.values())

    def pool(self, value: object, what: str) -> NodePool:
        fields = Fields(self._file, value, what, POOL)
        offers = requests(
            self.number(fields, "cpu", 4000, milli_cpus),
            self.number(fields, "memory", 32 * 2**30, memory_bytes),
            self.number(fields, "gpu", 0),
            self.texts(fields, "resources"),
        )
        failures = drains = None
        if "failures" in fields:
            inner = fields.inner("failures", ("meanTimeBetween", "meanTimeToRepair"))
            failures = Failures(
                self.time(inner, "meanTimeBetween", required=True),
                self.time(inner, "meanTimeToRepair", required=True),
            )
        if "drains" in fields:
            inner = fields.inner("drains", ("every", "lasts"))
            drains = Drains(
                self.time(inner, "every", required=True), self.time(inner, "lasts", required=True)
            )
        return NodePool(
            name=fields.required_text("name"),
            count=self.number(fields, "count", 1),
            offers=offers | {"pods": str(self.number(fields, "pods", 110))},
            zones=fields.texts("zones"),
            labels=self.texts(fields, "labels"),
            taints=self.parsed(fields, "taints", taint),
            failures=failures,
            drains=drains,
        )

    def application(self, value: object, what: str) -> Application:
        fields = Fields(self._file, value, what, APPLICATION)
        weight = fields.number("weight") if "weight" in fields else 1.0
        if not 0 <= weight <= 1e9:
            fields.fail("`weight` must be a number that is not negative", at="weight")
        return Application(
            name=fields.required_text("name"),
            weight=weight,
            namespace=fields.text("namespace", self._namespace),
            initial=self.number(fields, "initial", 0),
            replicas=distribution(fields, "replicas", pieces) or constant(1),
            cpu=distribution(fields, "cpu", milli_cpus, step=_CPU_STEP),
            memory=distribution(fields, "memory", memory_bytes, step=_MEMORY_STEP),
            gpu=distribution(fields, "gpu", pieces),
            duration=distribution(fields, "duration", milliseconds),
            labels=self.texts(fields, "labels"),
            priority_class=fields.text("priorityClass"),
            node_selector=self.texts(fields, "nodeSelector"),
            tolerations=self.parsed(fields, "tolerations", toleration),
            spread=self.neighbours(fields, "spread"),
            apart=self.neighbours(fields, "apart"),
            together=self.neighbours(fields, "together"),
            spec=plain(fields.table("spec", object)),
        )

    def neighbours(self, fields: Fields, name: str) -> Neighbours | None:
        """`zone` or `{by: zone, hard: true}`."""
        value = fields.value(name)
        if value is None:
            return None
        if isinstance(value, str):
            return Neighbours(value, hard=False)
        inner = fields.inner(name, ("by", "hard", "maxSkew"))
        skew = self.number(inner, "maxSkew", 1)
        if skew < 1:
            inner.fail("`maxSkew` must be at least 1", at="maxSkew")
        return Neighbours(inner.required_text("by"), inner.flag("hard"), skew)

    def priority_class(self, value: object, what: str) -> PriorityClass:
        fields = Fields(self._file, value, what, ("name", "value", "preempts"))
        raw = fields.value("value")
        if isinstance(raw, bool) or not isinstance(raw, int) or abs(raw) > 10**9:
            fields.fail("`value` must be a whole number of at most a billion", at="value")
        preempts = fields.flag("preempts") if "preempts" in fields else True
        return PriorityClass(fields.required_text("name"), raw, preempts)

    def arrivals(self) -> Arrivals:
        if "arrivals" not in self._top:
            return Arrivals()
        fields = self._top.inner("arrivals", ARRIVALS)
        kind = fields.text("kind", "poisson")
        if kind not in ARRIVAL_KINDS:
            fields.fail(
                f"`kind`: there is no {kind}; there are {', '.join(ARRIVAL_KINDS)}", at="kind"
            )
        swing = fields.number("swing") if "swing" in fields else 0.8
        if not 0 <= swing <= 1:
            fields.fail(
                "`swing` must be between 0 (always the same) and 1 (nothing at night)", at="swing"
            )
        return Arrivals(
            kind=kind,
            count=self.number(fields, "count", 0),
            over_ms=self.time(fields, "over", required=kind == "diurnal"),
            every_ms=self.time(fields, "every", required=kind == "burst"),
            size=distribution(fields, "size", pieces) or constant(10),
            period_ms=self.time(fields, "period") or 24 * 3_600_000,
            peak_ms=self.time(fields, "peak"),
            swing=swing,
        )

    def disruptions(self) -> tuple[tuple[Disruption, str], ...]:
        listed = self._top.items("disruptions") if "disruptions" in self._top else []
        made = []
        for number, value in enumerate(listed):
            what = f"generate, disruptions[{number}]"
            fields = Fields(self._file, value, what, ("at", *_VERBS))
            verbs = [verb for verb in _VERBS if verb in fields]
            if len(verbs) != 1:
                fields.fail(f"expected one of {', '.join(_VERBS)}, with the name of a node")
            at = self.time(fields, "at") / 1000
            disruption = Disruption(at, verbs[0], fields.required_text(verbs[0]))
            made.append((disruption, fields.where(verbs[0])))
        return tuple(sorted(made, key=lambda each: each[0].at))

    def scaled(self, description: Description) -> Description:
        """The description scaled to a number of nodes and pods, in the same proportions."""
        pools, applications = description.pools, description.applications
        arrivals = description.arrivals
        if "nodeCount" in self._top:
            counts = shares(self.number(self._top, "nodeCount", 0), [pool.count for pool in pools])
            pools = tuple(
                replace(pool, count=count) for pool, count in zip(pools, counts, strict=True)
            )
        if "podCount" in self._top:
            standing = [each.initial for each in applications]
            wanted = self.number(self._top, "podCount", 0)
            count, *initial = shares(wanted, [arrivals.count, *standing])
            arrivals = replace(arrivals, count=count)
            applications = tuple(
                replace(each, initial=number)
                for each, number in zip(applications, initial, strict=True)
            )
        if arrivals.count and not any(each.weight for each in applications):
            self._top.fail(
                "`applications`: pods arrive, so one of them needs a weight", at="applications"
            )
        known = {each.name for each in description.priority_classes}
        for each in applications:
            if each.priority_class not in known | {"", *_SYSTEM_CLASSES}:
                self._top.fail(
                    f"`applications`: {each.name} has priorityClass {each.priority_class}, "
                    "which `priorityClasses` does not list",
                    at="applications",
                )
        if not pools and not applications and not description.disruptions:
            self._top.fail("describes nothing; write `pools`, `applications` or a `preset`")
        pods = arrivals.count + sum(each.initial for each in applications)
        if applications and not pods and "podCount" not in self._top:
            self._top.fail(
                "`applications`: no pod ever arrives; write `arrivals: {count: ...}`, or `initial` "
                "of an application",
                at="applications",
            )
        return replace(description, pools=pools, applications=applications, arrivals=arrivals)

    def number(self, fields: Fields, name: str, default: int, read: Any = pieces) -> int:
        if name not in fields:
            return default
        try:
            number: int = read(fields.value(name))
        except ValueError as problem:
            fields.fail(f"`{name}`: {problem}", at=name)
        return number

    def time(self, fields: Fields, name: str, *, required: bool = False) -> int:
        time_ms = self.number(fields, name, 0, milliseconds)
        if required and not time_ms:
            fields.fail(f"`{name}` must be given, and be longer than nothing", at=name)
        return time_ms

    def texts(self, fields: Fields, name: str) -> dict[str, str]:
        """A mapping to texts; numbers and flags are taken as they are written."""
        made = {}
        for key, value in fields.scalars(name).items():
            made[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return made

    def parsed(self, fields: Fields, name: str, parse: Any) -> tuple[Json, ...]:
        try:
            return tuple(parse(text) for text in fields.texts(name))
        except ValueError as problem:
            fields.fail(f"`{name}`: {problem}", at=name)


def shares(total: int, parts: Sequence[int]) -> list[int]:
    """The total, shared out as the parts were; what is left over goes to the largest remainders."""
    whole = sum(parts)
    if not whole:
        return [total, *([0] * (len(parts) - 1))] if parts else []
    made = [total * part // whole for part in parts]
    rests = sorted(range(len(parts)), key=lambda index: (-(total * parts[index] % whole), index))
    for index in rests[: total - sum(made)]:
        made[index] += 1
    return made
