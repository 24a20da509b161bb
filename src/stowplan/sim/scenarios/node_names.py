"""Find misspelt nodes in a scenario's steps before anything is played.

Node names come from the steps that create nodes and from traces. A step that plays a workload of
scheduler_perf makes nodes with generated names, so later steps are not checked. Neither is a
scenario on an existing cluster, which has nodes of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from stowplan.errors import ConfigError
from stowplan.sim.scenarios.actions import (
    Action,
    Create,
    Delete,
    Json,
    ObjectPattern,
    OnNodes,
    Patch,
    PlayTrace,
    PlayWorkload,
    ScenarioStep,
)
from stowplan.sim.traces.model import Arrival, Trace


def check_node_names(steps: Iterable[ScenarioStep], trace_of: Callable[[PlayTrace], Trace]) -> None:
    """Raise ConfigError for the first step that names a node no earlier step creates."""
    known: dict[str, None] = {}
    traces: list[Trace] = []
    for step in steps:
        match step.action:
            case PlayWorkload():
                return
            case Create():
                known |= _nodes([*step.action.objects, *step.action.nodes])
            case PlayTrace():
                trace = trace_of(step.action)
                known |= _nodes(trace.objects())
                for event, where in trace.listed:
                    if event.node not in known:
                        told = f"`{event.kind}`: {no_such_node(event.node, list(known), event.at)}"
                        raise ConfigError(told, where=where)
                traces.append(trace)
        for pattern in _named(step.action):
            if _is_there(pattern, known):
                continue
            # A recording may also create nodes later; its events are read only where it matters.
            known |= _arriving(traces)
            traces.clear()
            if _is_there(pattern, known):
                continue
            if pattern.is_pattern:
                told = f"there is no Node that matches {pattern.name}"
            else:
                told = no_such_node(pattern.name, list(known))
            raise ConfigError(told, where=str(step.place))


def no_such_node(name: str, there: Sequence[str], at: float | None = None) -> str:
    close = get_close_matches(name, there, 1)
    if close:
        hint = f"; did you mean `{close[0]}`?"
    elif there:
        hint = f"; there {'is' if len(there) == 1 else 'are'} {', '.join(there[:3])}"
        hint += " ..." if len(there) > 3 else ""
    else:
        hint = ""
    when = "" if at is None else f" at {at:g} s"
    return f"there is no node `{name}`{when}{hint}"


def _named(action: Action) -> Iterator[ObjectPattern]:
    """The nodes that must exist for this action."""
    match action:
        case OnNodes():
            yield from (ObjectPattern("Node", name) for name in action.nodes)
        case Delete():
            yield from (target for target in action.targets if target.kind == "Node")
        case Patch() if action.target.kind == "Node":
            yield action.target


def _is_there(pattern: ObjectPattern, known: Iterable[str]) -> bool:
    if pattern.is_pattern:
        return any(fnmatchcase(name, pattern.name) for name in known)
    return pattern.name in known


def _nodes(manifests: Iterable[Json]) -> dict[str, None]:
    return {each["metadata"]["name"]: None for each in manifests if each.get("kind") == "Node"}


def _arriving(traces: Sequence[Trace]) -> dict[str, None]:
    return _nodes(
        event.manifest for trace in traces for event in trace.events() if isinstance(event, Arrival)
    )
