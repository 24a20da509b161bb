"""The cache of compiled parts of pods: what shares a value, and when it is compiled again."""

from __future__ import annotations

import pytest

from stowplan.api.objects import PodSpec
from stowplan.cluster import compiled
from stowplan.cluster.bytes_lru import BytesLru
from stowplan.cluster.compiled import compile_once, kept_bytes


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_small", BytesLru(1 << 16, 64, ticks_by_use=True))
    monkeypatch.setattr(compiled, "_large", BytesLru(1 << 22, 64))
    monkeypatch.setattr(compiled, "_spelled", BytesLru(1 << 22, 64))


def test_equal_parts_share_one_value() -> None:
    first = compile_once("kind", {"a": 1}, lambda: ["made"])
    assert compile_once("kind", {"a": 1}, lambda: ["made again"]) is first


def test_other_parts_and_other_kinds_have_values_of_their_own() -> None:
    compile_once("kind", {"a": 1}, lambda: "first")
    assert compile_once("kind", {"a": 2}, lambda: "second") == "second"
    assert compile_once("other", {"a": 1}, lambda: "third") == "third"


def test_a_value_that_is_not_asked_for_is_evicted_after_other_lookups() -> None:
    compile_once("kind", "idle", lambda: "made")
    for _ in range(200):
        compile_once("kind", "busy", lambda: "busy")
    assert compile_once("kind", "idle", lambda: "made again") == "made again"


def test_the_least_recently_used_is_evicted_above_the_budget() -> None:
    for number in range(500):
        compile_once("kind", (number, "x" * 100), lambda: "made")
    assert kept_bytes() <= 1 << 16


def test_a_large_spelling_is_looked_up_by_its_spec_and_goes_soon() -> None:
    spec, parts = PodSpec(), ["x" * 1000] * 100
    first = compile_once("kind", parts, lambda: ["made"], spec)
    assert compile_once("kind", "not spelled again", lambda: ["wrong"], spec) is first
    assert kept_bytes() > 100_000
    for number in range(200):
        compile_once("other", number, lambda: "made")
    assert kept_bytes() < 1 << 16


def test_a_failure_is_not_cached() -> None:
    def refuse() -> str:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        compile_once("kind", "parts", refuse)
    assert compile_once("kind", "parts", lambda: "made") == "made"
