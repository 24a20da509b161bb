"""Replace a function or class for one test by another that mypy checks against it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import pytest

P = ParamSpec("P")
T = TypeVar("T")


def replace(
    monkeypatch: pytest.MonkeyPatch, owner: object, real: Callable[P, T]
) -> Callable[[Callable[P, T]], None]:
    """Takes what `owner`, a module or class, is to have under the name of the real one.

    Two calls, because mypy would find a signature that suits both arguments of one.
    """
    name = getattr(real, "__name__", "")
    assert getattr(owner, name) is real, f"{owner} has no {name} of that kind"

    def by(fake: Callable[P, T]) -> None:
        monkeypatch.setattr(owner, name, fake)

    return by
