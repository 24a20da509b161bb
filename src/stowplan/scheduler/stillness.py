"""Keeps the cluster still while a decision waits for an extender.

The loop is still from the beginning of such a decision to its end. What would change the table or
the queue meanwhile (news from informers, bindings that failed) is kept, and done in its order when
the decision is over: so every decision sees one state of the cluster, as with kube-scheduler's
snapshot. Where no extender is configured it is never still, and costs nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

from stowplan.logs import get_logger

log = get_logger(__name__)


class Stillness:
    """`with stillness:` nothing moves."""

    def __init__(self) -> None:
        self._is_still = False
        self._kept: deque[Callable[[], object]] = deque()

    def __enter__(self) -> None:
        assert not self._is_still, "one decision at a time"
        self._is_still = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_still = False
        while self._kept:
            change = self._kept.popleft()
            try:
                change()
            except Exception:
                # The caller that requested the change has returned already.
                log.exception("A change that waited for a decision failed; continuing")

    def do(self, change: Callable[..., object], *arguments: Any) -> None:
        """Now, or as soon as the decision under way has ended."""
        if self._is_still:
            self._kept.append(partial(change, *arguments))
        else:
            change(*arguments)

    def guard(self, change: Callable[..., object]) -> Callable[..., None]:
        """The same function, done only when nothing is still."""
        return partial(self.do, change)
