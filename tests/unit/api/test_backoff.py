"""Waits that double up to a limit, and begin anew."""

from __future__ import annotations

import random

import pytest

from stowplan.api.backoff import Backoff


def test_waits_double_up_to_a_limit_and_begin_anew() -> None:
    backoff = Backoff(1.0, 5.0, rng=random.Random(3))
    for step in (1.0, 2.0, 4.0, 5.0, 5.0):
        assert step / 2 <= backoff.next_s() <= step
    backoff.reset()
    assert 0.5 <= backoff.next_s() <= 1.0


def test_to_make_one_takes_no_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is made for every event that is written, and hardly ever asked."""

    def seed(*_: object) -> None:
        raise AssertionError("a source of random numbers was seeded")

    monkeypatch.setattr(random, "Random", seed)
    assert 0.5 <= Backoff(1.0, 5.0).next_s() <= 1.0
