"""What a plugin costs: decisions of the default profile with and without it, in CPU time.

    python -m stowplan.testing.plugin_benchmark my_package:MyPlugin [--nodes 5000]

The cluster and the pods are those of the decision benchmark (`stowplan.bench.decisions`): pods of
one shape, for which columns can be kept, and pods that are all distinct. One core, no API server.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from stowplan.errors import StowplanError
from stowplan.lab.bench.decisions import DecisionCase, LoadedEngine
from stowplan.server.library import profile_of
from stowplan.testing.plugin_checks.subject import Subject, load_subject

SCHEDULER = "default-scheduler"
KINDS = ("one shape", "all distinct")


def decision_us(subject: Subject | None, kind: str, *, nodes: int, pods: int, rounds: int) -> float:
    """CPU microseconds a decision, the best of several rounds; None: only the default plugins."""
    scenario = DecisionCase("plugin", kind, nodes=nodes, existing=nodes, pods=pods)
    plugins = [] if subject is None else [subject.plugin]
    config, registry = profile_of(plugins, scheduler_name=SCHEDULER)
    stage = LoadedEngine(scenario, registry, config)
    stage.warm_up()
    best = float("inf")
    for _ in range(rounds):
        stage.clear()
        best = min(best, stage.play(pods)[0])
    return best


def compare(
    subjects: Iterable[Subject], *, nodes: int, pods: int, rounds: int
) -> dict[str, dict[str, float]]:
    """Microseconds by kind of pod and by plugin; "" is the default profile alone."""
    chosen: list[Subject | None] = [None, *subjects]
    return {
        kind: {
            "" if subject is None else subject.spec: decision_us(
                subject, kind, nodes=nodes, pods=pods, rounds=rounds
            )
            for subject in chosen
        }
        for kind in KINDS
    }


def table(figures: dict[str, dict[str, float]]) -> str:
    """One line a kind of pod and plugin."""
    lines = [f"{'pods':<14}{'us a pod':>10}{'pods/s':>12}  profile"]
    for kind, by_plugin in figures.items():
        for spec, spent in by_plugin.items():
            profile = f"default and {spec}" if spec else "default"
            lines.append(f"{kind:<14}{spent:>10,.0f}{1e6 / spent:>12,.0f}  {profile}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m stowplan.testing.plugin_benchmark",
        description="Decisions with and without a plugin, in CPU time of one core.",
    )
    parser.add_argument("plugins", nargs="+", metavar="MODULE:CLASS")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=100, help="in each round")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts")
    options = parser.parse_args(argv)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        subjects = [load_subject(spec) for spec in options.plugins]
        figures = compare(subjects, nodes=options.nodes, pods=options.pods, rounds=options.rounds)
    except StowplanError as problem:
        sys.stderr.write(f"Error: {problem}\n")
        return problem.exit_code
    sys.stdout.write(f"{options.nodes:,} nodes, CPU time of one core\n\n{table(figures)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
