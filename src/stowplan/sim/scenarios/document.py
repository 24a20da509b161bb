"""Reads a YAML scenario: its cluster, its steps, its expectations.

`read_scenario` is called before anything is started, and checks all that can be checked without a
cluster. What must stay true: every mistake is a ConfigError with file, line, step and field, in
words that say what would be right. docs/scenarios.md is the reference of the format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from stowplan.errors import ConfigError
from stowplan.framework.plugin import Plugin
from stowplan.sim.scenarios.actions import (
    Action,
    Create,
    Delete,
    Expect,
    ObjectPattern,
    OnNodes,
    Patch,
    Place,
    PlayTrace,
    PlayWorkload,
    Say,
    Scenario,
    ScenarioStep,
    Sleep,
    WaitForQuiet,
    WaitUntil,
)
from stowplan.sim.scenarios.expectations import Expected, read_expected
from stowplan.sim.scenarios.manifests import Manifests, plain
from stowplan.sim.scenarios.references import read_reference
from stowplan.sim.scenarios.scheduling import Scheduling, read_scheduling
from stowplan.sim.traces import generate, load_trace
from stowplan.sim.traces.layout import layout_in
from stowplan.sim.traces.model import DisruptionKind
from stowplan.workloads.fields import Fields, Located, read_yaml, seconds
from stowplan.workloads.load import find_performance_config, read_workloads, select

_FIELDS: Final = ("name", "about", "seed", "config", "plugins", "cluster", "steps")
_CREATE: Final = ("nodes", "objects", "pods")
_OPTIONS: Final = ("name", "settle")
_NODE_VERBS: Final = ("cordon", "uncordon", "drain", "fail", "recover")
#: Of `workload`, each with what it may say beside.
_SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "scheduler_perf": ("name",),
    "trace": ("columns", "nodes", "nodeColumns", "limit", "skipBroken", "reschedule"),
    "generate": (),
}
_TIMEOUT_S: Final = 60.0
#: So many names are in a step's title.
_MOST_NAMED: Final = 3


def read_scenario(
    file: Path, document: object = None, plugins: Sequence[type[Plugin]] = ()
) -> Scenario:
    """ConfigError says what is wrong, and where. `document`: the file's, if it was read already.

    `plugins` are known besides the file's own.
    """
    return _Reader(file, plugins).read(read_yaml(file) if document is None else document)


def is_performance_config(document: object) -> bool:
    """Whether it has the shape of scheduler_perf's files: a list of tests."""
    return (
        isinstance(document, list)
        and bool(document)
        and all(isinstance(test, dict) and "workloadTemplate" in test for test in document)
    )


class _Reader:
    """One file's."""

    def __init__(self, file: Path, plugins: Sequence[type[Plugin]]) -> None:
        self._file = file
        self._plugins = plugins
        self._manifests = Manifests(file)
        self._verbs: Mapping[str, Callable[[Any, Fields, str], Action]] = {
            "create": self._create,
            "delete": self._delete,
            "patch": self._patch,
            "wait": self._wait,
            "sleep": self._sleep,
            "say": self._say,
            **{verb: self._on_nodes(verb) for verb in _NODE_VERBS},
            "workload": self._play,
            "expect": self._expect,
        }

    def read(self, document: object) -> Scenario:
        if not isinstance(document, dict):
            raise ConfigError(
                "expected a mapping with `steps`, or a list of tests as scheduler_perf has them",
                where=str(self._file),
            )
        fields = Fields(self._file, document, "scenario", _FIELDS)
        scheduling = self._scheduling(fields)
        steps = []
        if "cluster" in fields:
            place = Place(self._file, fields.line("cluster"), "cluster")
            cluster = self._create(fields.value("cluster"), fields, "cluster")
            steps.append(ScenarioStep(0, "create", "the cluster", place, cluster))
        written = fields.items("steps")
        steps += [self._step(number, each) for number, each in enumerate(written, 1)]
        seed = fields.whole("seed") if "seed" in fields else None
        return Scenario(
            self._file,
            fields.text("name") or self._file.stem,
            tuple(steps),
            fields.text("about").strip(),
            seed,
            scheduling,
        )

    def _scheduling(self, fields: Fields) -> Scheduling:
        return read_scheduling(
            plain(fields.value("config")),
            fields.value("plugins") or (),
            folder=self._file.parent,
            where_config=f"{self._file}:{fields.line('config')}: config",
            where_plugins=f"{self._file}:{fields.line('plugins')}: plugins",
            more=self._plugins,
        )

    def _step(self, number: int, written: Any) -> ScenarioStep:
        what = f"step {number}"
        if isinstance(written, str):
            # `- settle` and the like: a verb without its colon.
            written = _as_mapping(written)
        if not isinstance(written, dict):
            Fields(self._file, written, what, ())
        verbs = [str(key) for key in written if key not in _OPTIONS]
        line = written.line
        if len(verbs) != 1:
            said = f"has {len(verbs)}: {', '.join(verbs)}" if verbs else "has none"
            self._fail(line, what, f"a step has one verb, this one {said}; verbs: {self._known()}")
        verb = verbs[0]
        if verb not in self._verbs:
            close = get_close_matches(verb, self._verbs, 1)
            hint = f"did you mean `{close[0]}`? " if close else ""
            self._fail(
                written.lines.get(verb, line),
                what,
                f"unknown verb `{verb}`; {hint}verbs: {self._known()}",
            )
        what = f"{what} ({verb})"
        fields = Fields(self._file, written, what, (*_OPTIONS, verb))
        action = self._verbs[verb](written[verb], fields, what)
        settles = fields.flag("settle") if "settle" in fields else _changes(action)
        title = fields.text("name") or _title(verb, action)
        return ScenarioStep(
            number, verb, title, Place(self._file, fields.line(), what), action, settles
        )

    def _known(self) -> str:
        return ", ".join(self._verbs)

    def _fail(self, line: int, what: str, message: str) -> NoReturn:
        place = f"{self._file}:{line}" if line else str(self._file)
        raise ConfigError(message, where=f"{place}: {what}")

    # Verbs

    def _create(self, written: Any, step: Fields, what: str) -> Create:
        fields = Fields(self._file, written, what, _CREATE)
        lists = {}
        for name in _CREATE:
            value = fields.value(name)
            # One entry need not be a list.
            lists[name] = value if isinstance(value, list) else [] if value is None else [value]
        pods = self._manifests.pods(lists["pods"], f"{what}, pods")
        nodes = self._manifests.nodes(lists["nodes"], f"{what}, nodes")
        objects = self._manifests.objects(lists["objects"], f"{what}, objects")
        created = Create(
            (*objects, *self._manifests.priority_classes(pods)), tuple(nodes), tuple(pods)
        )
        if not created and what != "cluster":
            fields.fail(f"creates nothing; write {', '.join(_CREATE)}")
        return created

    def _delete(self, written: Any, step: Fields, what: str) -> Delete:
        if isinstance(written, dict):
            fields = Fields(self._file, written, what, ("objects", "gracePeriod"))
            grace = fields.duration("gracePeriod") if "gracePeriod" in fields else None
            return Delete(self._references(fields.value("objects"), fields, "objects"), grace)
        return Delete(self._references(written, step, "delete"))

    def _references(self, written: Any, fields: Fields, at: str) -> tuple[ObjectPattern, ...]:
        listed = written if isinstance(written, list) else [written]
        if not listed or written is None:
            fields.fail(f"`{at}`: write what, as in pod/web-0", at=at)
        return tuple(read_reference(each, fields, at) for each in listed)

    def _patch(self, written: Any, step: Fields, what: str) -> Patch:
        fields = Fields(self._file, written, what, ("object", "with"))
        target = read_reference(fields.value("object"), fields, "object")
        patch = fields.value("with")
        if not isinstance(patch, dict) or not patch:
            fields.fail("`with` must be a part of the object, as in {metadata: {...}}", at="with")
        return Patch(target, plain(patch))

    def _wait(self, written: Any, step: Fields, what: str) -> WaitForQuiet | WaitUntil:
        if written in (None, "quiet"):
            return WaitForQuiet()
        if not isinstance(written, dict):
            step.fail("write `wait: quiet` or `wait: {until: ..., timeout: 30s}`", at="wait")
        fields = Fields(self._file, written, what, ("until", "timeout"))
        until = fields.value("until")
        if until is None:
            fields.fail("`until` must be given: an expectation, as in {pod: web, on: node1}")
        expected = read_expected(self._file, until, f"{what}, until")
        timeout = fields.duration("timeout") if "timeout" in fields else _TIMEOUT_S
        return WaitUntil(expected, timeout)

    def _sleep(self, written: Any, step: Fields, what: str) -> Sleep:
        if isinstance(written, int | float) and not isinstance(written, bool) and written >= 0:
            return Sleep(float(written))
        try:
            return Sleep(seconds(str(written)))
        except ValueError as problem:
            step.fail(f"`sleep`: {problem}", at="sleep")

    def _say(self, written: Any, step: Fields, what: str) -> Say:
        if not isinstance(written, str):
            step.fail("`say`: expected a text", at="say")
        return Say(written)

    def _on_nodes(self, verb: str) -> Callable[[Any, Fields, str], Action]:
        def read(written: Any, step: Fields, what: str) -> OnNodes:
            names = [written] if isinstance(written, str) else written
            if not isinstance(names, list) or not names or not _are_texts(names):
                step.fail(f"`{verb}`: write the name of a node, or a list of names", at=verb)
            return OnNodes(cast(DisruptionKind, verb), tuple(names))

        return read

    def _play(self, written: Any, step: Fields, what: str) -> PlayWorkload | PlayTrace:
        sources = [name for name in _SOURCES if isinstance(written, dict) and name in written]
        if len(sources) != 1:
            step.fail(f"`workload`: write one of {', '.join(_SOURCES)}", at="workload")
        source = sources[0]
        fields = Fields(self._file, written, what, (source, *_SOURCES[source]))
        if source == "scheduler_perf":
            name = fields.required_text(source)
            beside = self._file.parent / name
            found = find_performance_config(str(beside) if beside.exists() else name)
            workloads = select(read_workloads(found), fields.text("name", "*"))
            for workload in workloads:
                if workload.cannot_play:
                    why = f"{workload.title} cannot be played: {workload.cannot_play}"
                    fields.fail(why, at=source)
            return PlayWorkload(tuple(workloads))
        if source == "generate":
            description = fields.value(source)
            if not isinstance(description, dict):
                fields.fail("`generate` must be a mapping that says what to make up", at=source)
            make = partial(generate, description, file=self._file)
            return PlayTrace("what is made up", make(), lambda seed: make(seed=seed))
        return self._trace(fields)

    def _trace(self, fields: Fields) -> PlayTrace:
        folder = self._file.parent
        path = folder / fields.required_text("trace")
        nodes = fields.text("nodes")
        load = partial(
            load_trace,
            path,
            columns=layout_in(folder, fields.text("columns")) or None,
            nodes=folder / nodes if nodes else None,
            node_columns=layout_in(folder, fields.text("nodeColumns")) or None,
            limit=fields.whole("limit") if "limit" in fields else None,
            skip_broken=fields.flag("skipBroken"),
            reschedule=fields.flag("reschedule"),
        )
        return PlayTrace(path.name, load(), lambda seed: load(seed=seed))

    def _expect(self, written: Any, step: Fields, what: str) -> Expect:
        if not written:
            step.fail("expects nothing", at="expect")
        if not isinstance(written, list):
            return Expect((read_expected(self._file, written, what),))
        expected: list[Expected] = []
        for number, each in enumerate(written, 1):
            expected.append(read_expected(self._file, each, f"{what}, expectation {number}"))
        return Expect(tuple(expected))


def _as_mapping(verb: str) -> Located:
    mapping = Located()
    mapping[verb] = None
    return mapping


def _are_texts(values: Sequence[object]) -> bool:
    return all(isinstance(each, str) and each for each in values)


def _changes(action: Action) -> bool:
    """True if the step changes the cluster, so that a wait must follow."""
    return not isinstance(action, Say | WaitForQuiet | WaitUntil | Expect)


def _title(verb: str, action: Action) -> str:
    match action:
        case Create():
            return f"create {_counted(action)}"
        case Delete(targets=targets):
            return f"delete {_listed([str(target) for target in targets])}"
        case Patch(target=target):
            return f"patch {target}"
        case OnNodes(nodes=nodes):
            return f"{verb} {_listed(nodes)}"
        case Sleep(seconds=amount):
            return f"sleep {amount:g} s"
        case Say():
            return "say"
        case WaitForQuiet():
            return "wait for quiet"
        case WaitUntil(expected=expected):
            return f"wait until {expected}"
        case Expect(all=expected):
            return f"expect {len(expected)} things" if len(expected) > 1 else "expect"
        case PlayWorkload(workloads=workloads):
            return f"play {_listed([workload.title for workload in workloads])}"
        case PlayTrace(what=what):
            return f"play {what}"
    raise AssertionError(action)


def _counted(created: Create) -> str:
    parts = []
    for what, manifests in (
        ("node", created.nodes),
        ("pod", created.pods),
        ("object", created.objects),
    ):
        if what == "object":
            names = [f"{each['kind']} {each['metadata'].get('name', '')}" for each in manifests]
        else:
            names = [f"{what} {each['metadata'].get('name', '')}" for each in manifests]
        if len(names) == 1:
            parts.append(names[0].strip())
        elif len(names) > 1:
            first, last = names[0].split(" ")[-1], names[-1].split(" ")[-1]
            parts.append(f"{len(names)} {what}s ({first} .. {last})")
    return ", ".join(parts)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
