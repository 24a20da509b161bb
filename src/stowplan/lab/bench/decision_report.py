"""The part of docs/performance.md about decisions alone, from what `decisions --json` wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from stowplan.errors import ConfigError
from stowplan.lab.bench.results import RESULTS
from stowplan.lab.bench.targets import DecisionTargets
from stowplan.loader.json_text import load_json

FILE: Final = RESULTS / "decisions.json"
COMMAND: Final = f"python -m stowplan.bench.decisions --json {FILE}"
_FEW_PODS, _MANY_PODS = 10_000, 300_000
_FEW_NODES, _MANY_NODES = 1_000, 20_000


class _Scenario(msgspec.Struct):
    group: str
    kind: str
    nodes: int
    existing: int


class _Result(msgspec.Struct):
    scenario: _Scenario
    decision_us: float
    afterwards_us: float
    first_us: float
    pods_per_s: float


class Decisions(msgspec.Struct):
    results: list[_Result]
    python: str = ""

    def of(self, group: str) -> list[_Result]:
        return [one for one in self.results if one.scenario.group == group]

    def kinds(self, group: str) -> list[str]:
        return list(dict.fromkeys(one.scenario.kind for one in self.of(group)))

    def cost(self, group: str, kind: str, *, nodes: int = 0, existing: int = 0) -> float | None:
        """Microseconds a pod."""
        for one in self.of(group):
            where = one.scenario
            if where.kind == kind and nodes in (0, where.nodes) and existing in (0, where.existing):
                return one.decision_us
        return None


def read_decisions(file: Path = FILE) -> Decisions | None:
    """Read the stored results; None if nothing was measured."""
    try:
        return load_json(file.read_bytes(), Decisions)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:
        raise ConfigError(
            f"is not what decisions --json writes: {problem}", where=str(file)
        ) from None


def decision_lines(found: Decisions | None, targets: DecisionTargets) -> Iterator[str]:
    yield "## Decisions alone"
    yield ""
    if found is None:
        yield f"Not measured; `{COMMAND}` does it."
        yield ""
        return
    yield (
        "From queue pop to recorded decision on synthetic clusters, default profile, in CPU time "
        f"of one core, no sockets. Command: `{COMMAND}`."
    )
    yield ""
    yield "| | wanted | found | |"
    yield "|---|---|---|---|"
    yield from (f"| {' | '.join(cells)} |" for cells in _verdicts(found, targets))
    yield ""
    yield "| pods | nodes | existing pods | pods/s | us a decision | us afterwards | first pod ms |"
    yield "|---|---|---|---|---|---|---|"
    for one in found.results:
        where = one.scenario
        yield (
            f"| {where.kind} | {where.nodes:,} | {where.existing:,} | {one.pods_per_s:,.0f} | "
            f"{one.decision_us:.0f} | {one.afterwards_us:.0f} | {one.first_us / 1000:.1f} |"
        )
    yield ""


def _verdicts(found: Decisions, targets: DecisionTargets) -> Iterator[Sequence[str]]:
    for kind, wanted in (("one shape", targets.one_shape), ("all distinct", targets.all_distinct)):
        cost = found.cost("shapes", kind)
        if cost is not None:
            yield (
                f"{kind}, 5,000 nodes",
                f"at least {wanted:,.0f} pods/s",
                f"{1e6 / cost:,.0f}",
                "met" if 1e6 / cost >= wanted else "MISSED",
            )
    for kind in found.kinds("existing pods"):
        few = found.cost("existing pods", kind, existing=_FEW_PODS)
        many = found.cost("existing pods", kind, existing=_MANY_PODS)
        if few and many:
            yield _growth(
                f"{kind}, {_FEW_PODS:,} to {_MANY_PODS:,} existing pods",
                many / few,
                targets.growth_by_pods,
            )
    for kind in found.kinds("nodes"):
        few = found.cost("nodes", kind, nodes=_FEW_NODES)
        many = found.cost("nodes", kind, nodes=_MANY_NODES)
        if few and many:
            yield _growth(
                f"{kind}, {_FEW_NODES:,} to {_MANY_NODES:,} nodes",
                many / few,
                _MANY_NODES / _FEW_NODES,
            )


def _growth(what: str, grown: float, most: float) -> Sequence[str]:
    verdict = "met" if grown <= most else "MISSED"
    return (what, f"a decision costs at most {most:g}x", f"{grown:.2f}x", verdict)
