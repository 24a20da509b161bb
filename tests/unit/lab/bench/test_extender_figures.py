"""Extenders beside each other: medians, the best of workers, ratios, targets and what is told."""

from __future__ import annotations

import pytest

from stowplan.lab.bench.extender_bodies import Mode
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
from stowplan.lab.bench.figures import Spread

NAMES = (Mode.NAMES, 100)
NODES = (Mode.NODES, 5000)


def cell(
    contestant: str,
    rate: float,
    *,
    workers: int = 1,
    round_: int = 1,
    question: tuple[Mode, int] = NAMES,
    errors: int = 0,
    client_cpu_s: float = 0.5,
    others_cores: float = 0.0,
    p99_s: float = 0.02,
) -> Cell:
    return Cell(
        contestant=contestant,
        workers=workers,
        mode=question[0],
        nodes=question[1],
        round=round_,
        requests=int(rate * 2),
        errors=errors,
        seconds=2.0,
        p50_s=0.01,
        p99_s=p99_s,
        server_cpu_s=1.0,
        client_cpu_s=client_cpu_s,
        others_cores=others_cores,
        connections_made=8,
    )


def test_figures_of_a_cell() -> None:
    one = cell(OURS, 500)
    assert (one.requests, one.rate, one.cpu_ms, one.client_cores) == (1000, 500, 1.0, 0.25)


def test_percentiles() -> None:
    assert p50_and_p99([value / 1000 for value in range(1, 201)]) == (0.1, 0.198)
    assert p50_and_p99([0.3, 0.1]) == (0.1, 0.3)


def test_the_ratio_is_of_the_best_of_each_round() -> None:
    measured = ExtenderMeasured(
        [
            # Round 1: 600 with 2 workers, to 150 with 4.
            cell(OURS, 500, workers=1, round_=1),
            cell(OURS, 600, workers=2, round_=1),
            cell(THEIRS, 100, workers=2, round_=1),
            cell(THEIRS, 150, workers=4, round_=1),
            # Round 2: 900 with 1, to 100 with 2.
            cell(OURS, 900, workers=1, round_=2),
            cell(OURS, 600, workers=2, round_=2),
            cell(THEIRS, 100, workers=2, round_=2),
            cell(THEIRS, 90, workers=4, round_=2),
            # Round 3 has nobody to compare with.
            cell(OURS, 9000, workers=1, round_=3),
        ]
    )
    assert measured.ratio(NAMES) == Spread(6.5, 4.0, 9.0)
    assert measured.ratio(NAMES, 2) == Spread(6.0, 6.0, 6.0)
    assert measured.ratio(NAMES, 1) is None
    assert measured.best_workers(OURS, NAMES) == 1
    assert measured.best_workers(THEIRS, NAMES) == 4


def test_targets_are_5_for_names_and_3_for_nodes() -> None:
    def missed(ratio: float) -> list[tuple[Mode, int]]:
        cells = [cell(THEIRS, 100, question=each) for each in (NAMES, NODES)]
        cells += [cell(OURS, 100 * ratio, question=each) for each in (NAMES, NODES)]
        return ExtenderMeasured(cells).missed

    assert missed(5) == []
    assert missed(4.9) == [NAMES]
    assert missed(3) == [NAMES]
    assert missed(2.9) == [NAMES, NODES]


def test_the_tables() -> None:
    measured = ExtenderMeasured(
        [
            cell(OURS, 5500, workers=1),
            cell(OURS, 4000, workers=2),
            cell(THEIRS, 600, workers=1),
            cell(THEIRS, 1000, workers=2, p99_s=0.05),
            cell(OURS, 20, workers=1, question=NODES),
            cell(OURS, 30, workers=2, question=NODES),
            cell(THEIRS, 10, workers=1, question=NODES),
            cell(THEIRS, 15, workers=2, question=NODES),
        ]
    )
    names, nodes = (line.split() for line in summary(measured).splitlines()[1:])
    assert " ".join(names) == "100 node names 5,500 1 20.0 1,000 2 50.0 5.5x 5x met"
    assert " ".join(nodes) == "5,000 whole nodes 30.0 2 20.0 15.0 2 20.0 2.0x 3x MISSED"
    lines = by_workers(measured).splitlines()
    assert len(lines) == 5
    assert " ".join(lines[1].split()) == (
        "100 node names 1 5,500 10.0 20.0 0.09 600 10.0 20.0 0.83 9.2x 0.25"
    )
    assert lines[2].split()[0] == "2"


def test_one_contestant_has_no_ratio() -> None:
    measured = ExtenderMeasured([cell(OURS, 5500)])
    assert measured.ratio(NAMES) is None
    assert measured.missed == []
    assert summary(measured).splitlines()[1].split()[-2:] == ["-", "5x"]


@pytest.mark.parametrize(
    ("cells", "note"),
    [
        (
            [cell(OURS, 499), cell(THEIRS, 100)],
            "Target missed: 100 node names: 4.99x instead of 5x.",
        ),
        ([cell(OURS, 500, errors=3)], "3 requests FAILED; they are not among the figures."),
        (
            [cell(OURS, 40)],
            "Where there were fewer than 100 requests in a round, p99 is the slowest one.",
        ),
        (
            [cell(OURS, 500, others_cores=0.5)],
            "The machine was not quiet: others kept up to 0.5 cores busy. Rates and latencies are "
            "a guess; CPU time a request is less of one.",
        ),
        (
            [cell(OURS, 500, client_cpu_s=1.9)],
            "The client may have been the limit of: stowplan (100 node names).",
        ),
        ([cell(OURS, 500)], None),
    ],
)
def test_what_a_reader_must_know(cells: list[Cell], note: str | None) -> None:
    assert notes(ExtenderMeasured(cells)) == ([] if note is None else [note])
