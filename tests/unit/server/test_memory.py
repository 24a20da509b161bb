"""Memory that is kept where the C library can be told to, and nothing that breaks where not."""

from __future__ import annotations

import ctypes
import logging
import platform
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from stowplan.server import memory
from stowplan.server.memory import keep_freed_memory


def _cannot_be_loaded(name: str | None) -> Any:
    raise OSError("Dynamic loading not supported")


@pytest.mark.parametrize(
    "library",
    [
        # As musl is: it has malloc, and no mallopt.
        lambda name: SimpleNamespace(malloc=lambda size: 0),
        # As a Python that is linked statically.
        _cannot_be_loaded,
    ],
    ids=["musl", "static"],
)
def test_another_c_library_is_left_alone(
    library: Callable[[str | None], Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", library)
    with caplog.at_level(logging.DEBUG, logger=memory.__name__):
        assert keep_freed_memory() is False
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    assert record.getMessage() == "The C library cannot be told to keep freed memory"


@pytest.mark.parametrize(
    ("answers", "is_kept"), [([1, 1], True), ([0, 1], False), ([1, 0], False)], ids=str
)
def test_what_the_c_library_answers(
    answers: list[int], is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = iter(answers)
    asked: list[tuple[int, int]] = []

    def mallopt(option: int, value: int) -> int:
        asked.append((option, value))
        return next(said)

    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=mallopt))
    assert keep_freed_memory() is is_kept
    assert asked[0] == (-1, 64 << 20), "M_TRIM_THRESHOLD of malloc.h"


def test_this_machine() -> None:
    assert keep_freed_memory() is (platform.libc_ver()[0] == "glibc")
