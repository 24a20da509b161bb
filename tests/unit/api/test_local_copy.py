"""A local copy logs what it cannot read once, and forgets that with the object.

Its other rules are tested through the informer.
"""

from __future__ import annotations

import msgspec
import pytest

from stowplan.api.local_copy import LocalCopy
from stowplan.api.objects import Pod
from stowplan.api.paging import ListResult
from stowplan.api.resources import PODS
from stowplan.api.watch import RawEvent


def _event(kind: str, priority: int | str) -> RawEvent:
    pod = {"metadata": {"name": "a", "namespace": "ns"}, "spec": {"priority": priority}}
    return RawEvent(kind, msgspec.Raw(msgspec.json.encode(pod)))


@pytest.fixture
def copy() -> LocalCopy[Pod]:
    return LocalCopy(
        PODS,
        msgspec.json.Decoder(Pod).decode,
        on_add=lambda _: None,
        on_update=lambda _, __: None,
        on_delete=lambda _: None,
        on_raw=None,
    )


def test_an_unreadable_object_is_logged_once(
    copy: LocalCopy[Pod], caplog: pytest.LogCaptureFixture
) -> None:
    copy.apply_event(_event("ADDED", "high"))
    copy.apply_event(_event("MODIFIED", "higher"))
    copy.apply_event(_event("DELETED", "higher"))
    assert len(caplog.records) == 1
    assert not copy.store


@pytest.mark.parametrize("end", [_event("DELETED", "high"), _event("ADDED", 1)])
def test_the_next_one_of_its_name_is_logged_again(
    copy: LocalCopy[Pod], caplog: pytest.LogCaptureFixture, end: RawEvent
) -> None:
    copy.apply_event(_event("ADDED", "high"))
    copy.apply_event(end)
    copy.apply_event(_event("MODIFIED", "higher"))
    assert len(caplog.records) == 2


def test_names_that_a_list_does_not_show_are_forgotten(
    copy: LocalCopy[Pod], caplog: pytest.LogCaptureFixture
) -> None:
    unreadable = _event("ADDED", "high")
    for undecodable in ((bytes(unreadable.raw),), (bytes(unreadable.raw),), ()):
        copy.apply_list(ListResult([], "1", undecodable))
    assert len(caplog.records) == 1
    copy.apply_event(unreadable)
    assert len(caplog.records) == 2
