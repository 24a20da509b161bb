"""Operations of a scheduler_perf test, opcode by opcode, with a workload's parameters put in.

Called by `load` for each workload. Invariant: after this nothing can be wrong with an operation but
what only a cluster can know; files are read, numbers are there, kinds are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from stowplan.errors import ConfigError
from stowplan.workloads.fields import Fields, Parameters
from stowplan.workloads.kinds import resource_of
from stowplan.workloads.model import (
    AllocResourceClaims,
    Barrier,
    Churn,
    ChurnMode,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    CreateResourceDriver,
    DeletePods,
    NodeAllocatable,
    NodeLabels,
    NodeStrategy,
    Operation,
    Sleep,
    Stage,
    StartCollectingMetrics,
    StopCollectingMetrics,
    UniqueNodeLabel,
    UpdateAny,
    Volumes,
)
from stowplan.workloads.templates import Template

#: Parameters that no operation asks for, but Go code beside upstream's files.
_FOR_GO_CODE = {
    "numNodeDeclaredFeatures": "needs features that upstream's test plants inside kube-scheduler"
}
_CHURN_INTERVAL_MS = 500


class CannotPlay(Exception):
    """The workload is fine, but nothing here can play it; the text says why."""


class Templates:
    """The templates of one file, each read once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read: dict[tuple[str, str], Template] = {}

    def get(self, path: str, expected: str = "") -> Template:
        """By the path that the file gives, which is relative to its own folder."""
        key = (path, expected)
        if key not in self._read:
            self._read[key] = Template(self._directory / path, expected=expected)
        return self._read[key]


@dataclass
class Reader:
    """Reads the operations of one workload, one after the other."""

    file: Path
    #: Test and workload, in words.
    what: str
    params: Parameters
    templates: Templates
    default_pod: str = ""
    operations: list[Operation] = field(default_factory=list)
    _measuring: bool = False

    def add(self, number: int, written: object) -> None:
        """Read one operation of the template; pod sets are several operations."""
        opcode = _opcode(written)
        what = f"{self.what}, operation {number}" + (f" ({opcode})" if opcode else "")
        if opcode not in OPCODES:
            close = get_close_matches(opcode, OPCODES, 1)
            hint = f"did you mean {close[0]}? " if close else ""
            Fields(self.file, written, what, list(_keys(written))).fail(
                f"unknown opcode `{opcode}`; {hint}known are {', '.join(OPCODES)}"
            )
        known_fields, read = OPCODES[opcode]
        fields = Fields(self.file, written, what, ("opcode", *known_fields))
        try:
            for operation in read(self, fields):
                self._check_measuring(operation, fields)
                self.operations.append(operation)
        except ConfigError as problem:
            if what in str(problem):
                raise
            fields.fail(str(problem))  # a template's error: add the operation that uses it

    def end(self, fields: Fields) -> None:
        for name, reason in _FOR_GO_CODE.items():
            if name in self.params.values:
                raise CannotPlay(f"{reason} ({name})")
        self.params.check_used()
        if self._measuring:
            fields.fail("startCollectingMetrics is never stopped")

    @property
    def next_namespace(self) -> str:
        """Where an operation's objects go that is not told."""
        return f"namespace-{len(self.operations)}"

    def count(self, fields: Fields, default: int = 0) -> int:
        if "countParam" in fields:
            return self.params.number(fields.text("countParam"), fields)
        return fields.whole("count", default)

    def template(self, fields: Fields, name: str, expected: str = "") -> Template | None:
        path = fields.text(name)
        return self.templates.get(path, expected) if path else None

    def required_template(self, fields: Fields, name: str, expected: str = "") -> Template:
        return self.templates.get(fields.required_text(name), expected)

    def _check_measuring(self, operation: Operation, fields: Fields) -> None:
        starts = isinstance(operation, StartCollectingMetrics)
        if self._measuring and (starts or getattr(operation, "collect_metrics", False)):
            fields.fail("metrics are being collected already; stopCollectingMetrics comes first")
        if isinstance(operation, StopCollectingMetrics):
            if not self._measuring:
                fields.fail("there is no startCollectingMetrics before it")
            self._measuring = False
        self._measuring |= starts


def _keys(written: object) -> Iterator[str]:
    if isinstance(written, dict):
        yield from (str(key) for key in written)


def _opcode(written: object) -> str:
    if isinstance(written, dict):
        for key, value in written.items():
            if str(key).lower() == "opcode":
                return str(value)
    return ""


def _create_nodes(reader: Reader, fields: Fields) -> Iterator[Operation]:
    yield CreateNodes(
        count=reader.count(fields),
        name_prefix=f"node-{len(reader.operations)}-",
        template=reader.template(fields, "nodeTemplatePath", "Node"),
        strategy=_node_strategy(fields),
    )


def _node_strategy(fields: Fields) -> NodeStrategy | None:
    if "nodeAllocatableStrategy" in fields:
        known = ("nodeAllocatable", "csiNodeAllocatable", "migratedPlugins")
        inner = fields.inner("nodeAllocatableStrategy", known)
        drivers = inner.table("csiNodeAllocatable", dict)
        if not all(isinstance(limits.get("count", 0), int) for limits in drivers.values()):
            inner.fail("`csiNodeAllocatable`: `count` must be a whole number")
        return NodeAllocatable(
            inner.table("nodeAllocatable", str),
            {driver: limits.get("count") for driver, limits in drivers.items()},
            inner.texts("migratedPlugins"),
        )
    if "labelNodePrepareStrategy" in fields:
        inner = fields.inner("labelNodePrepareStrategy", ("labelKey", "labelValues"))
        inner.items("labelValues")
        return NodeLabels(inner.required_text("labelKey"), inner.texts("labelValues"))
    if "uniqueNodeLabelStrategy" in fields:
        inner = fields.inner("uniqueNodeLabelStrategy", ("labelKey",))
        return UniqueNodeLabel(inner.required_text("labelKey"))
    return None


def _create_namespaces(reader: Reader, fields: Fields) -> Iterator[Operation]:
    yield CreateNamespaces(
        count=reader.count(fields),
        prefix=fields.required_text("prefix"),
        template=reader.template(fields, "namespaceTemplatePath", "Namespace"),
    )


def _create_pods(reader: Reader, fields: Fields) -> Iterator[Operation]:
    yield _pods(reader, fields, fields.text("namespace", reader.next_namespace))


def _create_pod_sets(reader: Reader, fields: Fields) -> Iterator[Operation]:
    if "createPodsOp" not in fields:
        fields.fail("`createPodsOp` must be given")
    inner = fields.inner("createPodsOp", ("opcode", *_POD_FIELDS))
    for number in range(reader.count(fields)):
        yield _pods(reader, inner, f"{fields.required_text('namespacePrefix')}-{number}")


def _pods(reader: Reader, fields: Fields, namespace: str) -> CreatePods:
    template = reader.template(fields, "podTemplatePath", "Pod")
    if template is None and reader.default_pod:
        template = reader.templates.get(reader.default_pod, "Pod")
    volumes = None
    paths = ("persistentVolumeTemplatePath", "persistentVolumeClaimTemplatePath")
    if any(path in fields for path in paths):
        volume = reader.required_template(fields, paths[0], "PersistentVolume")
        claim = reader.required_template(fields, paths[1], "PersistentVolumeClaim")
        volumes = Volumes(claim, volume)
    collect_metrics, skip_wait = fields.flag("collectMetrics"), fields.flag("skipWaitToCompletion")
    if collect_metrics and skip_wait:
        fields.fail("collectMetrics and skipWaitToCompletion cannot both be true")
    return CreatePods(
        count=reader.count(fields),
        namespace=namespace,
        template=template,
        volumes=volumes,
        collect_metrics=collect_metrics,
        skip_wait=skip_wait,
        steady_state_s=_steady_state(reader, fields, template, skip_wait=skip_wait),
    )


def _steady_state(
    reader: Reader, fields: Fields, template: Template | None, *, skip_wait: bool
) -> float | None:
    steady, duration = fields.flag("steadyState"), fields.duration("duration")
    if "durationParam" in fields:
        duration = reader.params.duration(fields.text("durationParam"), fields)
    if "steadyStateParam" in fields:
        steady = reader.params.flag(fields.text("steadyStateParam"), fields)
    if not steady:
        return None
    if skip_wait:
        fields.fail("skipWaitToCompletion and steadyState cannot both be true")
    if duration <= 0:
        fields.fail("a steady state needs a duration")
    if template is not None and template.build(0, 1).get("metadata", {}).get("name"):
        fields.fail("a steady state needs pods with generateName: each is another one")
    return duration


def _create_any(reader: Reader, fields: Fields) -> Iterator[Operation]:
    template = _any_template(reader, fields)
    yield CreateAny(reader.count(fields, 1), fields.text("namespace"), template)


def _any_template(reader: Reader, fields: Fields) -> Template:
    template = reader.required_template(fields, "templatePath")
    namespaced = resource_of(template).namespaced
    if namespaced and "namespace" not in fields:
        fields.fail(f"a {template.kind} needs a namespace")
    if not namespaced and "namespace" in fields:
        fields.fail(f"a {template.kind} is in no namespace")
    return template


def _create_driver(reader: Reader, fields: Fields) -> Iterator[Operation]:
    if "maxClaimsPerNodeParam" in fields:
        devices = reader.params.number(fields.text("maxClaimsPerNodeParam"), fields)
    else:
        devices = fields.whole("maxClaimsPerNode")
    yield CreateResourceDriver(
        fields.required_text("driverName"), fields.required_text("nodes"), devices
    )


def _alloc_claims(reader: Reader, fields: Fields) -> Iterator[Operation]:
    yield AllocResourceClaims(fields.text("namespace"))


def _update_any(reader: Reader, fields: Fields) -> Iterator[Operation]:
    template = _any_template(reader, fields)
    subresources = fields.texts("subresources")
    if len(subresources) > 1:
        fields.fail("one subresource at a time")
    if not template.build(0, 1).get("metadata", {}).get("name"):
        fields.fail(f"{template.path}: metadata.name must say what to update")
    yield UpdateAny(
        count=reader.count(fields, 1),
        namespace=fields.text("namespace"),
        template=template,
        per_second=fields.whole("updatePerSecond"),
        subresource=subresources[0] if subresources else "",
    )


def _delete_pods(reader: Reader, fields: Fields) -> Iterator[Operation]:
    yield DeletePods(
        namespace=fields.required_text("namespace"),
        labels=fields.table("labelSelector", str),
        per_second=fields.whole("deletePodsPerSecond"),
        skip_wait=fields.flag("skipWaitToCompletion"),
    )


def _churn(reader: Reader, fields: Fields) -> Iterator[Operation]:
    modes = [mode.value for mode in ChurnMode]
    mode = fields.text("mode")
    if mode not in modes:
        fields.fail(f"`mode` is `{mode}`; it must be one of {', '.join(modes)}")
    number = fields.whole("number")
    if mode == ChurnMode.RECREATE.value and not number:
        fields.fail("`number` cannot be 0 when objects are recreated")
    fields.items("templatePaths")
    templates = tuple(reader.templates.get(path) for path in fields.texts("templatePaths"))
    for template in templates:
        resource_of(template)
    interval_ms = fields.whole("intervalMilliseconds") or _CHURN_INTERVAL_MS
    yield Churn(
        mode=ChurnMode(mode),
        namespace=fields.text("namespace", reader.next_namespace),
        templates=templates,
        number=number,
        interval_s=interval_ms / 1000,
    )


def _barrier(reader: Reader, fields: Fields) -> Iterator[Operation]:
    stages = [stage.value for stage in Stage]
    stage = fields.text("stageRequirement") or Stage.SCHEDULED.value
    if stage not in stages:
        fields.fail(f"`stageRequirement` is `{stage}`; it must be one of {', '.join(stages)}")
    yield Barrier(fields.texts("namespaces"), fields.table("labelSelector", str), Stage(stage))


def _sleep(reader: Reader, fields: Fields) -> Iterator[Operation]:
    if "durationParam" in fields:
        yield Sleep(reader.params.duration(fields.text("durationParam"), fields))
    else:
        yield Sleep(fields.duration("duration"))


def _start_collecting(reader: Reader, fields: Fields) -> Iterator[Operation]:
    fields.items("namespaces")
    yield StartCollectingMetrics(
        fields.text("name"), fields.texts("namespaces"), fields.table("labelSelector", str)
    )


def _stop_collecting(reader: Reader, fields: Fields) -> Iterator[Operation]:
    yield StopCollectingMetrics()


_COUNT = ("count", "countParam")
_POD_FIELDS = (
    *_COUNT,
    "steadyState",
    "steadyStateParam",
    "duration",
    "durationParam",
    "collectMetrics",
    "namespace",
    "podTemplatePath",
    "skipWaitToCompletion",
    "persistentVolumeTemplatePath",
    "persistentVolumeClaimTemplatePath",
)
_NODE_FIELDS = (
    *_COUNT,
    "nodeTemplatePath",
    "nodeAllocatableStrategy",
    "labelNodePrepareStrategy",
    "uniqueNodeLabelStrategy",
)
_ANY_FIELDS = (*_COUNT, "namespace", "templatePath")
#: What can be played: the fields of each opcode and what reads them.
OPCODES: dict[str, tuple[tuple[str, ...], Callable[[Reader, Fields], Iterator[Operation]]]] = {
    "createNodes": (_NODE_FIELDS, _create_nodes),
    "createNamespaces": ((*_COUNT, "prefix", "namespaceTemplatePath"), _create_namespaces),
    "createPods": (_POD_FIELDS, _create_pods),
    "createPodSets": ((*_COUNT, "namespacePrefix", "createPodsOp"), _create_pod_sets),
    "createAny": (_ANY_FIELDS, _create_any),
    "createResourceClaims": (_ANY_FIELDS, _create_any),
    "createResourceDriver": (
        ("driverName", "nodes", "maxClaimsPerNode", "maxClaimsPerNodeParam"),
        _create_driver,
    ),
    "allocResourceClaims": (("namespace",), _alloc_claims),
    "updateAny": ((*_ANY_FIELDS, "updatePerSecond", "subresources"), _update_any),
    "deletePods": (
        ("namespace", "labelSelector", "skipWaitToCompletion", "deletePodsPerSecond"),
        _delete_pods,
    ),
    "churn": (("mode", "number", "intervalMilliseconds", "namespace", "templatePaths"), _churn),
    "barrier": (("namespaces", "labelSelector", "stageRequirement"), _barrier),
    "sleep": (("duration", "durationParam"), _sleep),
    "startCollectingMetrics": (("name", "namespaces", "labelSelector"), _start_collecting),
    "stopCollectingMetrics": ((), _stop_collecting),
}
