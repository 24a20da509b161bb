"""The extender service beside Flask and gunicorn: `python -m stowplan.bench.extender`.

Both answer filter and prioritize for a pod that may go anywhere, for 100 to 5,000 nodes, by name
and whole, with 1, 2 and 4 worker processes. They take turns, several rounds, on loopback, asked by
one and the same client. `make bench-extender` runs it.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from stowplan import __version__
from stowplan.lab.bench.as_command import as_command
from stowplan.lab.bench.extender_bodies import (
    ExtenderQuestion,
    Mode,
    WrongAnswer,
    check_filter,
    check_prioritize,
    question,
)
from stowplan.lab.bench.extender_contestants import (
    CannotMeasure,
    ExtenderContestant,
    Flask,
    Stowplan,
    flask_python,
    started,
)
from stowplan.lab.bench.extender_figures import (
    OURS,
    THEIRS,
    Cell,
    ExtenderMeasured,
    by_workers,
    notes,
    p50_and_p99,
    summary,
)
from stowplan.lab.bench.extender_load import Effort, Load, LoadError, Verb, ask_once, put_load
from stowplan.lab.bench.observe import cpu_seconds, machine_cpu
from stowplan.lab.bench.progress import BenchProgress

SIZES: Final = (100, 1000, 5000)
WORKERS: Final = (1, 2, 4)
_WARM_UP: Final = Effort(0.3)
#: At least so many answers, within `_LONGEST_S`.
_FEWEST_REQUESTS: Final = 32
_LONGEST_S: Final = 6.0
_MODES: Final = {"names": Mode.NAMES, "nodes": Mode.NODES}


class Bench:
    """One run; `measure` may be called once."""

    def __init__(
        self,
        options: argparse.Namespace,
        contestants: Sequence[ExtenderContestant],
        progress: BenchProgress,
    ) -> None:
        self._options = options
        self._contestants = contestants
        self._progress = progress
        self._asked = [(_MODES[mode], nodes) for mode in options.modes for nodes in options.sizes]
        #: How long right answers are, of those that were looked at.
        self._right: dict[tuple[str, Mode, int], tuple[Verb, ...]] = {}

    def measure(self, directory: Path) -> Iterator[Cell]:
        options = self._options
        for round_ in range(1, options.rounds + 1):
            for workers in options.workers:
                # The second contestant finds the machine warm.
                turn = self._contestants if round_ % 2 else self._contestants[::-1]
                for contestant in turn:
                    yield from self._measure_one(contestant, workers, round_, directory)

    def _measure_one(
        self, contestant: ExtenderContestant, workers: int, round_: int, directory: Path
    ) -> Iterator[Cell]:
        options = self._options
        seen: list[str] = []
        title = f"round {round_} of {options.rounds}, {contestant.name}, workers: {workers}"
        with started(contestant, workers, directory) as (port, pid):
            self._progress.begin(title)
            for mode, nodes in self._asked:
                self._progress.update(f"{nodes:,} {mode}")
                verbs = self._verbs(contestant.name, question(mode, nodes), port)
                put_load(port, verbs, options.connections, _WARM_UP)
                cpu, machine = cpu_seconds(pid), machine_cpu().total
                load = put_load(port, verbs, options.connections, self._effort())
                used = cpu_seconds(pid) - cpu
                others = machine_cpu().total - machine - used - load.cpu_s
                if not load.latencies_s:
                    raise CannotMeasure(f"{title}: {load.errors[0]}")
                cell = self._cell(
                    contestant.name, workers, (mode, nodes), round_, load, used, others
                )
                seen.append(f"{nodes:,} {mode} {cell.rate:,.0f}/s")
                yield cell
        self._progress.say(f"{title}: {'; '.join(seen)}")

    def _effort(self) -> Effort:
        longest = max(self._options.seconds, min(_LONGEST_S, 3 * self._options.seconds))
        return Effort(self._options.seconds, _FEWEST_REQUESTS, longest)

    def _verbs(self, name: str, asked: ExtenderQuestion, port: int) -> tuple[Verb, ...]:
        key = (name, asked.mode, asked.nodes)
        if key not in self._right:
            filter_request, prioritize_request = asked.requests[0]
            filtered = ask_once(port, filter_request)
            check_filter(asked, filtered)
            prioritized = ask_once(port, prioritize_request)
            check_prioritize(asked, prioritized)
            # In another order they are as long.
            lengths = (len(filtered), len(prioritized))
            self._right[key] = tuple(
                Verb(request, length)
                for pair in asked.requests
                for request, length in zip(pair, lengths, strict=True)
            )
        return self._right[key]

    def _cell(
        self,
        name: str,
        workers: int,
        asked: tuple[Mode, int],
        round_: int,
        load: Load,
        server_cpu_s: float,
        others_cpu_s: float,
    ) -> Cell:
        p50_s, p99_s = p50_and_p99(load.latencies_s)
        return Cell(
            contestant=name,
            workers=workers,
            mode=asked[0],
            nodes=asked[1],
            round=round_,
            requests=len(load.latencies_s),
            errors=len(load.errors),
            seconds=load.seconds,
            p50_s=p50_s,
            p99_s=p99_s,
            server_cpu_s=server_cpu_s,
            client_cpu_s=load.cpu_s,
            others_cores=max(0.0, others_cpu_s / load.seconds),
            connections_made=load.connections_made,
        )


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m stowplan.bench.extender",
        description="The extender service beside a plain Flask extender under gunicorn: requests/s "
        "and p99 of filter + prioritize. About 7 minutes.",
    )
    parser.add_argument("--quick", action="store_true", help="one short round, about a minute")
    parser.add_argument("--rounds", type=int, metavar="N", help="default: 3, or 1 with --quick")
    parser.add_argument(
        "--seconds", type=float, metavar="S", help="for each figure; default: 2, or 0.4 if quick"
    )
    parser.add_argument("--sizes", type=_numbers, default=SIZES, metavar="N,...", help="of nodes")
    parser.add_argument("--workers", type=_numbers, default=WORKERS, metavar="N,...")
    parser.add_argument("--modes", type=_modes, default=tuple(_MODES), metavar="names,nodes")
    parser.add_argument("--connections", type=int, default=8, metavar="N", help="default: 8")
    parser.add_argument("--only", choices=[OURS, THEIRS], help="one contestant, and no ratios")
    parser.add_argument(
        "--gunicorn-worker-class",
        choices=["sync", "gthread"],
        default="sync",
        help="sync, gunicorn's default, ends a connection after each answer; gthread keeps it",
    )
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.seconds = options.seconds or (0.4 if options.quick else 2.0)
    if min(options.rounds, options.connections, *options.sizes, *options.workers) < 1:
        parser.error("numbers begin with 1")
    return options


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted(int(word) for word in text.split(",")))


def _modes(text: str) -> tuple[str, ...]:
    words = tuple(text.split(","))
    if not set(words) <= _MODES.keys():
        raise argparse.ArgumentTypeError("choose from names,nodes")
    return words


def _contestants(options: argparse.Namespace, progress: BenchProgress) -> list[ExtenderContestant]:
    contestants: list[ExtenderContestant] = []
    if options.only != THEIRS:
        contestants.append(Stowplan())
    if options.only != OURS:
        progress.say("Flask and gunicorn are set up in a place of their own (once)")
        contestants.append(Flask(flask_python(), options.gunicorn_worker_class))
    return contestants


def _about(options: argparse.Namespace) -> list[str]:
    sizes = [question(_MODES[mode], options.sizes[-1]) for mode in options.modes]
    bodies = ", ".join(
        f"{asked.nodes:,} {asked.mode}: {asked.body_bytes / 1e6:.2f} MB" for asked in sizes
    )
    kept = (
        "sync workers close each connection after an answer, so that the client reconnects for "
        "every request; --gunicorn-worker-class gthread keeps connections"
        if options.gunicorn_worker_class == "sync"
        else "gthread workers keep connections"
    )
    return [
        f"{options.rounds} rounds of {options.seconds:g} s each, medians; the ratio is of the best "
        f"number of workers out of {', '.join(map(str, options.workers))} for each, round by "
        "round. For each pod filter, then prioritize; node names in another order from pod to pod.",
        f"{options.connections} connections on loopback, each with one request at a time; p50 and "
        "p99 are those under this load.",
        f"Largest bodies: {bodies}.",
        f"gunicorn: {kept}.",
        f"Stowplan {__version__}, Python {platform.python_version()}, {os.cpu_count()} cores.",
    ]


def _document(options: argparse.Namespace, measured: ExtenderMeasured) -> dict[str, Any]:
    return {
        "version": __version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "gunicornWorkerClass": options.gunicorn_worker_class,
        "connections": options.connections,
        "ratios": [
            {"mode": mode, "nodes": nodes, "ratio": measured.ratio((mode, nodes))}
            for mode, nodes in measured.questions
        ],
        "missed": [{"mode": mode, "nodes": nodes} for mode, nodes in measured.missed],
        "errors": measured.errors,
        "notes": [*notes(measured), *_about(options)],
        "cells": measured.cells,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parsed(arguments)
    progress = BenchProgress(sys.stderr)
    began = time.monotonic()
    try:
        contestants = _contestants(options, progress)
        with tempfile.TemporaryDirectory(prefix="stowplan-bench-extender-") as directory:
            bench = Bench(options, contestants, progress)
            measured = ExtenderMeasured(bench.measure(Path(directory)))
    except (CannotMeasure, LoadError, WrongAnswer) as problem:
        progress.erase()
        print(f"Error: {problem}", file=sys.stderr)
        return 1
    finally:
        progress.erase()
    progress.say(f"Measured in {time.monotonic() - began:.0f} s")
    if options.output == "json":
        print(msgspec.json.format(msgspec.json.encode(_document(options, measured))).decode())
    else:
        print(f"\n{summary(measured)}\n\n{by_workers(measured)}\n")
        for note in (*notes(measured), *_about(options)):
            print(f"- {note}")
    return 1 if measured.errors else 0


if __name__ == "__main__":
    sys.exit(as_command(main, "nothing was kept"))
