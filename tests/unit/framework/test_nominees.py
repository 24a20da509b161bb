"""Compiled nominees: good for one generation of a node's nominations."""

from __future__ import annotations

from stowplan.framework import nominees
from stowplan.framework.nominees import NomineeCache
from stowplan.queue.nominator import Nominator
from stowplan.testing import pod


def test_nominees_are_compiled_once_while_nominations_stay() -> None:
    nominated, cache = Nominator(), NomineeCache()
    nominated.add(pod("a", priority=7), "n1")
    first = cache.on("n1", nominated)
    nominated.add(pod("b"), "n2")
    assert cache.on("n1", nominated) is first
    assert first.lowest == 7


def test_a_nomination_that_comes_changes_or_goes_compiles_again() -> None:
    nominated, cache = Nominator(), NomineeCache()
    stays, goes = pod("a", uid="a", priority=7), pod("b", uid="b", priority=3)
    nominated.add(stays, "n1")
    before = cache.on("n1", nominated)
    nominated.add(goes, "n1")
    both = cache.on("n1", nominated)
    assert both.generation != before.generation
    assert ([each.uid for each in both.pods], both.lowest) == (["a", "b"], 3)
    nominated.refresh(pod("b", uid="b", priority=3, cpu="7"))
    assert cache.on("n1", nominated).pods[1].request != both.pods[1].request
    nominated.delete(goes)
    assert [each.uid for each in cache.on("n1", nominated).pods] == ["a"]


def test_another_nominator_has_other_generations() -> None:
    cache = NomineeCache()
    first, second = Nominator(), Nominator()
    first.add(pod("a", uid="a"), "n1")
    second.add(pod("b", uid="b"), "n1")
    assert [each.uid for each in cache.on("n1", first).pods] == ["a"]
    assert [each.uid for each in cache.on("n1", second).pods] == ["b"]


def test_nodes_without_nominations_are_dropped_in_the_end() -> None:
    nominated, cache = Nominator(), NomineeCache()
    for number in range(2 * nominees._SPARE):
        each = pod(f"p{number}")
        nominated.add(each, f"n{number}")
        cache.on(f"n{number}", nominated)
        nominated.delete(each)
    assert len(cache) <= nominees._SPARE + 3
