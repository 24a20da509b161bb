"""Decisions alone, without sockets: ``python -m stowplan.bench.decisions [--quick]``.

From queue pop to recorded decision (`Engine.attempt` on an engine as `scheduler.assembly` builds
it) on synthetic clusters, in CPU time of one core. What a running scheduler does afterwards (end
of the binding, the informer's confirmation) happens between two attempts and is reported apart, and
so is the first pod of a scenario, for which counters and columns are made. Of several rounds the
best counts: whatever else runs on the machine makes figures worse, never better. The cost of the
ledger comes from short runs with and without it in turns, which suffer alike.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from statistics import median

from stowplan.api.objects import Pod
from stowplan.config.defaults import default_config
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.framework.registry import Registry
from stowplan.lab.bench.as_command import as_command
from stowplan.lab.bench.plugin_costs import Costs, timed_registry
from stowplan.lab.bench.synthetic import (
    HOPELESS,
    KINDS,
    as_informed,
    existing_pods,
    nodes,
    objects_for,
)
from stowplan.output_file import check_output_file
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.ledger import Ledger
from stowplan.scheduler.outcome import Placement

#: Kinds of pods that differ in nothing but their shapes.
_SHAPES = ("one shape", "100 shapes", "all distinct")
#: Kinds for which the plugins' shares are shown.
_COSTED = ("one shape", "all distinct", "soft spreading", "anti-affinity")
#: Pods before the measured ones: columns and counters are kept from their second use on.
WARM_UP = 20
#: Pods of a run with or without a ledger, and the memory of that ledger.
_SLICE = 100
#: Pods that wait behind those: there is a rush until the end.
_BEHIND = 25
_LEDGER_BYTES = 1_000_000


@dataclass(frozen=True)
class DecisionCase:
    """One cluster and the pods that are decided on it."""

    group: str
    kind: str = "one shape"
    nodes: int = 5_000
    existing: int = 10_000
    pods: int = 1_500


@dataclass
class DecisionCost:
    """Microseconds of CPU time a pod."""

    scenario: DecisionCase
    #: The best round's mean, from pop to recorded decision.
    decision_us: float
    #: All rounds.
    rounds_us: list[float]
    #: After the decision: end of the binding and confirmation by the informer.
    afterwards_us: float
    #: The very first pod, which pays for counters and columns.
    first_us: float
    #: What a full ledger of attempts adds to all that, and in per cent; None: not measured.
    ledger_us: float | None = None
    ledger_percent: float | None = None

    @property
    def pods_per_s(self) -> float:
        return 1e6 / self.decision_us


def scenarios(*, quick: bool) -> list[DecisionCase]:
    """What is measured, the cheapest clusters first."""
    node_counts = (100, 1_000, 5_000) if quick else (100, 1_000, 5_000, 20_000)
    existing = (0, 10_000, 30_000) if quick else (0, 10_000, 100_000, 300_000)
    pods = 600 if quick else 1_500
    made = [
        DecisionCase("nodes", kind, count, count * 2, min(pods, count * 8))
        for kind in ("one shape", "all distinct")
        for count in node_counts
    ]
    made += [DecisionCase("shapes", kind, pods=pods) for kind in _SHAPES]
    made += [DecisionCase("kinds", kind, pods=pods) for kind in KINDS if kind not in _SHAPES]
    made += [
        DecisionCase("existing pods", kind, existing=count, pods=pods)
        for kind in ("one shape", "all distinct", "soft spreading", "anti-affinity")
        for count in existing
    ]
    return made


class LoadedEngine:
    """An engine with a cluster in it; pods can be decided and confirmed again and again."""

    def __init__(
        self,
        scenario: DecisionCase,
        registry: Registry | None = None,
        config: KubeSchedulerConfiguration | None = None,
    ) -> None:
        self._scenario = scenario
        self.engine: Engine = build_engine(
            config or default_config(), registry=registry or in_tree_registry(), rng=Random(1)
        )
        self._handlers = EventHandlers(self.engine)
        for resource, thing in objects_for(scenario.kind):
            self._handlers.set_object(resource, thing)
        for each in nodes(scenario.nodes):
            self._handlers.add_node(each)
        for existing in existing_pods(scenario.existing, scenario.nodes):
            self._handlers.add_pod(existing)
        self._pods = KINDS[scenario.kind]()
        self._placed: list[Pod] = []
        self.first_us = 0.0

    def warm_up(self) -> None:
        self.first_us = self.play(1)[0]
        self.play(WARM_UP)

    def clear(self) -> None:
        """Remove the placed pods, so that every round begins on the same cluster."""
        for placed in self._placed:
            self._handlers.delete_pod(placed)
        self._placed.clear()

    def next_pods(self, count: int) -> list[Pod]:
        """New pods of the scenario's kind."""
        return [next(self._pods) for _ in range(count)]

    def play(self, count: int) -> tuple[float, float]:
        """`decide` new pods."""
        self.enqueue(count)
        return self.decide(count)

    def enqueue(self, count: int) -> None:
        """Queue new pods of the scenario's kind."""
        for each in self.next_pods(count):
            self._handlers.add_pod(each)
        gc.collect()
        gc.freeze()  # as a running scheduler does after its first list

    def decide(self, count: int) -> tuple[float, float]:
        """CPU microseconds a pod for decisions, and for what follows each."""
        engine, handlers, clock = self.engine, self._handlers, time.process_time
        deciding = following = 0.0
        for _ in range(count):
            began = clock()
            outcome = engine.attempt()
            decided = clock()
            deciding += decided - began
            if not isinstance(outcome, Placement):
                if self._scenario.kind not in HOPELESS:
                    told = outcome.message if outcome is not None else "it was not queued"
                    raise RuntimeError(f"a pod of {self._scenario} found no place: {told}")
                continue
            engine.permitted(outcome)
            engine.bound(outcome)
            ended = clock()
            informed = as_informed(outcome.pod)
            began_again = clock()
            handlers.update_pod(outcome.queued.pod, informed)
            self._placed.append(informed)
            ended += clock() - began_again
            following += ended - decided
        return deciding / count * 1e6, following / count * 1e6


def measure(
    scenario: DecisionCase, rounds: int, verify_every: int = 0, *, ledger: bool = False
) -> DecisionCost:
    """The best of several rounds on one cluster; with `ledger`, each one also with a ledger."""
    stage = LoadedEngine(scenario)
    stage.warm_up()
    stage.engine.verify_decisions(verify_every)
    played: list[tuple[float, float]] = []
    for _ in range(rounds):
        stage.clear()
        played.append(stage.play(scenario.pods))
    added = _ledger_cost(stage, max(rounds * scenario.pods // _SLICE, 2)) if ledger else None
    decisions = [decision for decision, _ in played]
    return DecisionCost(
        scenario,
        decision_us=min(decisions),
        rounds_us=decisions,
        afterwards_us=min(afterwards for _, afterwards in played),
        first_us=stage.first_us,
        ledger_us=added and added[0],
        ledger_percent=added and added[1],
    )


def _ledger_cost(stage: LoadedEngine, pairs: int) -> tuple[float, float]:
    """Microseconds and per cent that a ledger adds, going by the quickest of many short runs."""
    # So small that it is full soon, and drops as many attempts as it takes.
    full = Ledger(stage.engine.clock, _LEDGER_BYTES)
    costs: dict[bool, list[float]] = {False: [], True: []}
    ended = time.monotonic()
    stage.enqueue(_BEHIND)
    for number in range(pairs):
        for has_ledger in (False, True) if number % 2 else (True, False):
            stage.clear()
            stage.enqueue(_SLICE)
            if has_ledger:
                full.discount(time.monotonic() - ended)
            stage.engine.ledger = full if has_ledger else None
            costs[has_ledger].append(sum(stage.decide(_SLICE)))
            if has_ledger:
                ended = time.monotonic()
    stage.engine.ledger = None
    without, having = (min(each) for each in costs.values())
    return having - without, 100 * (having / without - 1)


def measure_plugins(scenario: DecisionCase) -> dict[str, float]:
    """Microseconds a pod by plugin, the dearest first."""
    costs: Costs = Counter()
    stage = LoadedEngine(scenario, timed_registry(costs))
    stage.warm_up()
    costs.clear()
    stage.play(scenario.pods)
    return {name: spent / scenario.pods * 1e6 for name, spent in costs.most_common()}


# What is shown


def table(results: Sequence[DecisionCost]) -> str:
    """One line a scenario, grouped by what varies."""
    lines: list[str] = []
    group = ""
    for result in results:
        scenario = result.scenario
        if scenario.group != group:
            group = scenario.group
            lines += ["", f"By {group}:" if group != "kinds" else "Other kinds of pods:"]
            lines.append(
                _line("pods", "nodes", "existing", "pods/s", "us", "after", "first pod ms")
                + ("".join(map(_cell, ("ledger us", "ledger %"))) if _has_ledger(result) else "")
            )
        lines.append(
            _line(
                scenario.kind,
                f"{scenario.nodes:,}",
                f"{scenario.existing:,}",
                f"{result.pods_per_s:,.0f}",
                f"{result.decision_us:.0f}",
                f"{result.afterwards_us:.0f}",
                f"{result.first_us / 1e3:.1f}",
            )
            + (_cell(f"{result.ledger_us:.1f}") if result.ledger_us is not None else "")
            + (_cell(f"{result.ledger_percent:.1f}") if result.ledger_percent is not None else "")
        )
    if shares := [each.ledger_percent for each in results if each.ledger_percent is not None]:
        lines += ["", f"The ledger adds {median(shares):.1f} % of CPU time (median of all lines)."]
    return "\n".join(lines[1:])


def _has_ledger(result: DecisionCost) -> bool:
    return result.ledger_us is not None


def _line(kind: str, *cells: str) -> str:
    return f"{kind:<24}" + "".join(map(_cell, cells))


def _cell(text: str) -> str:
    return f"{text:>13}"


def plugin_table(costs: dict[str, dict[str, float]]) -> str:
    """Microseconds a pod by plugin, one column a kind of pod."""
    names = list(dict.fromkeys(name for by_plugin in costs.values() for name in by_plugin))
    lines = [_line("By plugin, us a pod:", *costs)]
    lines += [
        _line(name[:24], *(f"{by_plugin.get(name, 0.0):.1f}" for by_plugin in costs.values()))
        for name in sorted(names, key=lambda name: -max(c.get(name, 0.0) for c in costs.values()))
    ]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m stowplan.bench.decisions",
        description="Decisions per second of CPU time, from queue pop to recorded decision, "
        "on synthetic clusters without a control plane.",
    )
    parser.add_argument("--quick", action="store_true", help="smaller clusters, fewer rounds")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only groups and kinds of pods with this text"
    )
    parser.add_argument("--rounds", type=int, default=0, metavar="N", help="[default: 3, quick 2]")
    parser.add_argument(
        "--verify-decisions",
        type=int,
        default=0,
        metavar="N",
        help="make every N-th decision again on a rebuilt cluster, as `stowplan run` does",
    )
    parser.add_argument(
        "--ledger",
        action="store_true",
        help="also measure what the ledger of attempts adds; more --rounds make it more exact",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    check_output_file(options.json, "--json")
    rounds = options.rounds or (2 if options.quick else 3)
    chosen = [
        each
        for each in scenarios(quick=options.quick)
        if options.only in each.group or options.only in each.kind
    ]
    if not chosen:
        print(f"error: no group or kind of pods has {options.only!r} in it", file=sys.stderr)
        return 2
    results: list[DecisionCost] = []
    for number, scenario in enumerate(chosen, start=1):
        _say(
            f"{number} of {len(chosen)}: {scenario.kind}, {scenario.nodes:,} nodes, "
            f"{scenario.existing:,} existing pods"
        )
        results.append(measure(scenario, rounds, options.verify_decisions, ledger=options.ledger))
    costs: dict[str, dict[str, float]] = {}
    for kind in _COSTED if not options.only else ():
        _say(f"by plugin: {kind}")
        costs[kind] = measure_plugins(DecisionCase("plugins", kind, pods=300))
    print(table(results))
    if costs:
        print()
        print(plugin_table(costs))
    if options.json is not None:
        options.json.write_text(json.dumps(document(results, costs), indent=2) + "\n")
        print(f"\nAll figures are in {options.json}.")
    return 0


def document(
    results: Sequence[DecisionCost], costs: dict[str, dict[str, float]]
) -> dict[str, object]:
    """Everything as JSON."""
    return {
        "unit": "CPU microseconds a pod, from queue pop to recorded decision",
        "python": platform.python_version(),
        "system": platform.platform(),
        "results": [asdict(result) | {"pods_per_s": result.pods_per_s} for result in results],
        "plugins_us": costs,
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(as_command(main, "nothing was kept"))
