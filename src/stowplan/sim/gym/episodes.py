"""The traces of episodes: the forms in which users give a trace, and one trace for every seed.

What must stay true: the same seed gives the same trace. A `Trace`, and a file that is no generator,
is the same whatever the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from stowplan.apiserver.kinds import NODES
from stowplan.cluster.requests import PODS
from stowplan.errors import ConfigError
from stowplan.sim.gym.observation import check_resources
from stowplan.sim.traces import Trace, generate, load_trace
from stowplan.sim.traces.model import Json
from stowplan.sim.traces.presets import PRESETS

#: A trace, a description as under `generate:`, the name of a preset, or a file.
Source: TypeAlias = Trace | Mapping[str, Any] | str | Path


def episodes_of(source: Source) -> Callable[[int], Trace]:
    """A function from a seed to a trace."""
    if isinstance(source, Trace):
        return lambda seed: source
    if isinstance(source, Mapping):
        return lambda seed: generate(source, seed=seed)
    if not isinstance(source, str | Path):
        raise ConfigError(
            f"expected a Trace, a description, a preset or a file, got {type(source).__name__}",
            where="trace",
        )
    if source in PRESETS:
        preset = {"preset": str(source)}
        return lambda seed: generate(preset, seed=seed)
    file = Path(source)
    if not file.exists():
        raise ConfigError(
            f"`{source}` is neither a file nor a preset; presets: {', '.join(PRESETS)}",
            where="trace",
        )
    if file.suffix in (".yaml", ".yml"):
        return lambda seed: load_trace(file, seed=seed)
    loaded = load_trace(file)
    return lambda seed: loaded


def nodes_of(trace: Trace) -> tuple[int, tuple[str, ...]]:
    """How many nodes a trace has, and the resources that they offer."""
    count, offered = 0, set[str]()
    for manifest in _node_manifests(trace):
        count += 1
        status = manifest.get("status") or {}
        offered.update(status.get("allocatable") or status.get("capacity") or ())
    if not count:
        raise ConfigError(
            "has no nodes; `stowplan.traces.load_trace(file, nodes=...)` takes them from another"
            " file",
            where="trace",
        )
    known = offered & set(_accounted(offered))
    return count, check_resources(known)


def _node_manifests(trace: Trace) -> list[Json]:
    found = [each for each in trace.objects() if each["kind"] == NODES.kind]
    if len(found) < trace.nodes:
        # A recording, whose nodes come as they came.
        arriving = (event.manifest for event in trace.arrivals())
        found += [each for each in arriving if each["kind"] == NODES.kind]
    return found


def _accounted(names: set[str]) -> list[str]:
    """The resources that can be scheduled; nodes may offer others."""
    accounted = [PODS]
    for name in names:
        try:
            check_resources([name])
        except ConfigError:
            continue
        accounted.append(name)
    return accounted
