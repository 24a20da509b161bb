"""What would place a pending pod: the search of `explain --fix`, in steps between decisions.

A step tries one change by one decision, on the console's own mirror, with the work of a decision as
its limit. After each step the search rests for longer than the step took, so that a scheduler in
the same thread is hardly slower. One search runs at a time.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Final

import msgspec

from stowplan.clock import Clock
from stowplan.cluster.work import DECISION_WORK
from stowplan.console.mirror import ClusterMirror
from stowplan.errors import ServerError
from stowplan.explain.explanation import Fix
from stowplan.explain.fixes import SEARCH_S, tried_changes
from stowplan.judge.objects import Key, Thing

#: A search beside a scheduler rests for so many times what a step took.
_REST: Final = 4.0
_MOST_WAITING: Final = 8


class FixSearch:
    """Searches for one pod after another; clients that ask for the same pod share a search."""

    def __init__(self, mirror: ClusterMirror, clock: Clock, *, has_scheduler: bool) -> None:
        self._mirror = mirror
        self._clock = clock
        self._rest = _REST if has_scheduler else 0.0
        self._limit = DECISION_WORK if has_scheduler else None
        self._asked: dict[Key, asyncio.Task[dict[str, Any]]] = {}
        self._turn = asyncio.Lock()

    async def find(self, thing: Thing) -> dict[str, Any]:
        """The fixes, cheapest first; ServerError if too many searches wait."""
        running = self._asked.get(thing.key)
        if running is None:
            if len(self._asked) >= _MOST_WAITING:
                problem = "other searches for fixes are under way: try again in some seconds"
                raise ServerError(problem, status=HTTPStatus.SERVICE_UNAVAILABLE)
            running = asyncio.create_task(self._search(thing), name="fixes")
            self._asked[thing.key] = running
            running.add_done_callback(lambda _: self._asked.pop(thing.key, None))
        return await asyncio.shield(running)

    async def _search(self, thing: Thing) -> dict[str, Any]:
        async with self._turn:
            steps = tried_changes(self._mirror.explainer, thing)
            found: list[Any] = []
            spent = 0.0
            while spent < SEARCH_S:
                began = self._clock.monotonic()
                tried = self._step(steps)
                took = self._clock.monotonic() - began
                spent += took
                if tried is _END:
                    return _answer(found, is_whole=True)
                if tried is not None:
                    found.append(tried)
                await asyncio.sleep(took * self._rest)
        return _answer(found, is_whole=False)

    def _step(self, steps: Any) -> Any:
        with self._mirror.limited(
            self._limit,
            "the pod is too expensive to decide beside scheduling: try again, since parts are"
            " cached now, or run stowplan explain --fix",
        ):
            return next(steps, _END)


_END: Final = object()


def _answer(found: list[Any], *, is_whole: bool) -> dict[str, Any]:
    fixes = [Fix(change.kind, change.text, node, change.command) for change, node in found]
    return {"fixes": msgspec.to_builtins(fixes), "whole": is_whole}
