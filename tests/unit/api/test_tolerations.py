"""Tolerations against taints, by hand; the full table is in tests/property."""

from __future__ import annotations

import pytest

from stowplan.api.objects import Taint, Toleration
from stowplan.api.tolerations import HARD_EFFECTS, Tolerations, tolerates

GPU = Taint(key="gpu", value="a100", effect="NoSchedule")
SPOT = Taint(key="spot", value="", effect="PreferNoSchedule")
DOWN = Taint(key="down", value="", effect="NoExecute")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(key="gpu", operator="Exists"), True),
        (Toleration(key="gpu", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="gpu", operator="Equal", value="a100"), True),
        (Toleration(key="gpu", value="a100", effect="NoSchedule"), True),
        (Toleration(key="gpu", operator="Equal", value="h100"), False),
        (Toleration(key="gpu"), False),
        (Toleration(key="cpu", operator="Exists"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoSchedule"), True),
        (Toleration(operator="Equal", value="a100"), True),
        (Toleration(operator="Equal"), False),
        (Toleration(), False),
        (Toleration(key="gpu", operator="exists"), False),
    ],
)
def test_one_toleration_against_one_taint(toleration: Toleration, expected: bool) -> None:
    assert tolerates(toleration, GPU) is expected
    assert Tolerations((toleration,)).match(GPU) is expected


@pytest.mark.parametrize("operator", ["Lt", "Gt"])
def test_comparisons_never_match(operator: str) -> None:
    taint = Taint(key="level", value="5", effect="NoSchedule")
    for value in ("4", "5", "6"):
        toleration = Toleration(key="level", operator=operator, value=value)
        assert not tolerates(toleration, taint)
        assert not Tolerations((toleration,)).match(taint)


def test_the_first_untolerated_taint_in_the_nodes_order() -> None:
    tolerations = (Toleration(key="gpu", operator="Exists"),)
    assert Tolerations(tolerations).find_untolerated((GPU, SPOT, DOWN), HARD_EFFECTS) == DOWN
    assert Tolerations(()).find_untolerated((DOWN, GPU), HARD_EFFECTS) == DOWN
    assert Tolerations(()).find_untolerated((GPU, DOWN), HARD_EFFECTS) == GPU


def test_only_the_asked_effects_count() -> None:
    assert Tolerations(()).find_untolerated((SPOT,), HARD_EFFECTS) is None
    assert Tolerations(()).find_untolerated((GPU, SPOT), ("PreferNoSchedule",)) == SPOT


def test_absent_lists_are_empty_lists() -> None:
    assert Tolerations(None).find_untolerated(None, HARD_EFFECTS) is None
    assert Tolerations(None).find_untolerated((GPU,), HARD_EFFECTS) == GPU


def test_several_tolerations_share_the_work() -> None:
    tolerations = (
        Toleration(key="gpu", operator="Exists"),
        Toleration(key="down", operator="Exists", effect="NoExecute"),
    )
    assert Tolerations(tolerations).find_untolerated((GPU, SPOT, DOWN), HARD_EFFECTS) is None
