"""The fuzzer finds faults: with one put in on purpose, it says where, and makes the case small."""

from __future__ import annotations

from pathlib import Path

import pytest

from stowplan.cluster.derived import DerivedRows
from stowplan.cluster.images import ImageIndex
from stowplan.cluster.journal import Rows
from stowplan.cluster.table import Int64Array, NodeTable
from stowplan.framework.ranking import Ranking
from stowplan.framework.shapes import FeasibleRows, WeightedScores
from stowplan.plugins import image_locality, taint_toleration
from tests.parity.examine import Examiner, Finding
from tests.parity.fuzz import examine
from tests.parity.oracle import Oracle
from tests.parity.regressions import keep, read, replay

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

SCORE = "score of ImageLocality"


def first_finding(oracle: Oracle, origin: str, most: int, difference: str) -> Finding:
    """The first of so many cases or sequences that differs in this way."""
    examiner = Examiner(oracle)
    for number in range(most):
        for finding in examine(examiner, [f"{origin} 5/{number}"]).findings:
            if finding.difference.kind.startswith(difference):
                return finding
    raise AssertionError(f"no {origin} of {most} shows the fault")


def test_a_score_that_is_off_is_found_and_made_small(
    oracle: Oracle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    least = image_locality._LEAST
    monkeypatch.setattr(image_locality, "_LEAST", 2 * least)
    found = first_finding(oracle, "case", 200, SCORE)
    examiner = Examiner(oracle)
    small = examiner.shrink(found)
    assert small.difference.kind == found.difference.kind
    assert {thing["kind"] for thing in small.question["objects"]} == {"Node"}
    kept = read(keep(small, examiner, tmp_path))
    assert replay(kept) is not None
    monkeypatch.setattr(image_locality, "_LEAST", least)
    assert replay(kept) is None


def test_a_verdict_that_is_wrong_is_found(oracle: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taint_toleration, "HARD_EFFECTS", frozenset({"NoSchedule"}))
    found = first_finding(oracle, "case", 200, "nodes: TaintToleration")
    small = Examiner(oracle).shrink(found)
    (node,) = small.question["objects"]
    assert [taint["effect"] for taint in node["spec"]["taints"]] == ["NoExecute"]


def test_what_is_not_forgotten_is_found_by_a_sequence(
    oracle: Oracle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    forget = ImageIndex._leave
    monkeypatch.setattr(ImageIndex, "_leave", lambda self, row, name: None)
    found = first_finding(oracle, "sequence", 30, SCORE)
    examiner = Examiner(oracle)
    small = examiner.shrink(found)
    assert len(small.question["steps"]) <= 3
    kept = read(keep(small, examiner, tmp_path))
    assert replay(kept) is not None
    monkeypatch.setattr(ImageIndex, "_leave", forget)
    assert replay(kept) is None


def test_what_is_not_forgotten_is_found_by_a_detour(
    oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImageIndex, "_leave", lambda self, row, name: None)
    found = first_finding(oracle, "case", 200, SCORE)
    assert "steps" in found.question, "the case alone is answered rightly"


def forgetful(self: DerivedRows, table: NodeTable) -> list[int] | None:
    """`changed_rows` that skips the last entry of the journal."""
    rows = changed_rows(self, table)
    return rows[:-1] if rows else rows


changed_rows = DerivedRows.changed_rows


@pytest.mark.parametrize("kept", [FeasibleRows, WeightedScores])
def test_a_kept_shape_that_misses_a_change_is_found(
    kept: type[DerivedRows], oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judge answers rightly all the while: only what the live scheduler keeps is broken."""
    monkeypatch.setattr(kept, "changed_rows", forgetful)
    found = first_finding(oracle, "sequence", 40, "decide: ")
    assert "steps" in found.question


def test_a_ranking_that_misses_a_change_is_found(
    oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful_update(self: Ranking, rows: Rows | list[int], sums: Int64Array) -> None:
        is_new = len(rows) == len(self.totals())
        update(self, rows if is_new else rows[:-1], sums)

    update = Ranking.update
    monkeypatch.setattr(Ranking, "update", forgetful_update)
    found = first_finding(oracle, "sequence", 40, "decide: ")
    assert "steps" in found.question


def test_a_wrong_choice_is_made_small(
    oracle: Oracle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(WeightedScores, "changed_rows", forgetful)
    examiner = Examiner(oracle)
    small = examiner.shrink(first_finding(oracle, "sequence", 40, "decide: "))
    assert len(small.question["steps"]) <= 4
    kept = read(keep(small, examiner, tmp_path))
    assert replay(kept) is not None
    monkeypatch.setattr(WeightedScores, "changed_rows", changed_rows)
    assert replay(kept) is None
