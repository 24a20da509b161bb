"""Bindings without a definite answer: sent again, or their pods looked up, until there is one.

The table "Bindings without an answer" in ARCHITECTURE.md says what follows from each answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

from stowplan.api.objects import Pod
from stowplan.api.paging import is_older
from stowplan.api.resources import PODS
from stowplan.api.verbs import SchedulerApi
from stowplan.errors import (
    ApiError,
    ApiUnavailable,
    Conflict,
    Forbidden,
    LeadershipLost,
    ServerError,
    Throttled,
    Unauthorized,
)
from stowplan.framework.status import SUCCESS, Status
from stowplan.logs import get_logger, kv
from stowplan.scheduler.binding_points import bound_by, broken, call_plugin
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.outcome import Placement
from stowplan.scheduler.reporter import Reporter

#: The logger of all messages about bindings.
log = get_logger("stowplan.scheduler.binding")

#: After these it is not known whether the pod is bound.
UNCLEAR = (Conflict, ServerError, Throttled, ApiUnavailable, TimeoutError)
#: Pauses before a binding without a clear answer is sent again, or its pod looked up again.
_AGAIN_S = (0.2, 0.5, 1.0, 2.0, 5.0)
#: So often a pause looks whether a watch has shown the pod bound.
_LOOK_S = 0.1
#: Pods that another scheduler may bind before it is worth a warning: a former leader's last ones.
_FEW_BY_OTHERS = 5


class BindingRetries:
    """Finds out what became of bindings that were not clearly answered."""

    def __init__(self, engine: Engine, client: SchedulerApi, reporter: Reporter) -> None:
        self._engine = engine
        self._client = client
        self._reporter = reporter
        #: Bindings under way that the API server refuses without a definite answer. Other pods do
        #: not wait for them.
        self.refused = 0
        self.on_refused: Callable[[], None] = lambda: None
        self._bound_by_others = 0

    async def settle(self, plugin: Any, placement: Placement, problem: Exception) -> Status:
        """Send a binding again until the answer is definite.

        That the pod is not bound now proves nothing: a request of which the connection broke may
        arrive when its place was given away long ago.

        DIVERGES: kube-scheduler gives the place away after any error.
        """
        node, may_arrive = placement.node, False
        for attempt in count():
            failure = broken(self._engine.failures, plugin, "Bind", problem)
            may_arrive |= _may_arrive(problem)
            settled = await self._definite(placement, problem, failure, may_arrive=may_arrive)
            if settled is not None:
                return settled
            if attempt == 0:
                log.warning(
                    "Binding got no definite answer, sending it again",
                    extra=kv(pod=placement.pod.key, node=node, err=failure.message),
                )
            elif attempt == len(_AGAIN_S):
                self._reporter.unanswered(placement, failure.message)
            is_refused = isinstance(problem, ApiError)
            await self._pause(attempt, placement if may_arrive else None, is_refused=is_refused)
            if may_arrive and self._is_confirmed(placement):
                return SUCCESS
            if self._engine.cache.table.live_row(node) is None:
                # The API server would bind the pod all the same. Its place is worth nothing now.
                return await self.look(placement, failure)
            try:
                return bound_by(plugin, await call_plugin(plugin, "bind", "Bind", placement))
            except LeadershipLost:
                raise
            except Exception as again:
                problem = again
        raise AssertionError("unreachable")

    async def _definite(
        self, placement: Placement, problem: Exception, failure: Status, *, may_arrive: bool
    ) -> Status | None:
        """What the answer to a binding means; None if it must be sent again.

        `may_arrive`: an earlier request, or this one, may have taken effect or may yet.
        """
        if isinstance(problem, Conflict) or (isinstance(problem, Forbidden) and may_arrive):
            try:
                found = await self._find(placement.pod)
            except (ApiError, ApiUnavailable, TimeoutError):
                return None
            # A conflict may be with a request of our own that was never answered.
            placement.is_bound_by_other = not may_arrive
            settled = self._seen(placement, found, failure)
            if settled.is_success or placement.is_lost or not may_arrive:
                return settled
            # Not bound, but pods that are leaving cannot be any more; and what is forbidden now is
            # forbidden to a request that arrives later.
            is_over = isinstance(problem, Forbidden) or (found is not None and found.is_terminating)
            return settled if is_over else None
        if isinstance(problem, UNCLEAR) or (isinstance(problem, Unauthorized) and may_arrive):
            return None
        return failure

    async def _pause(
        self, attempt: int, doubted: Placement | None = None, *, is_refused: bool
    ) -> None:
        """Wait before the next try, or until a watch shows that the `doubted` one took effect."""
        if is_refused:
            self.refused += 1
            self.on_refused()
        now = asyncio.get_running_loop().time
        until = now() + _AGAIN_S[min(attempt, len(_AGAIN_S) - 1)]
        try:
            while (left_s := until - now()) > 0:
                if doubted is not None and self._is_confirmed(doubted):
                    break
                await asyncio.sleep(left_s if doubted is None else min(left_s, _LOOK_S))
        finally:
            self.refused -= is_refused

    def _is_confirmed(self, placement: Placement) -> bool:
        """True if the API server has said, in a list or a watch, that the pod is on its node."""
        cache, uid = self._engine.cache, placement.pod.uid
        return cache.node_of(uid) == placement.node and not cache.is_assumed(uid)

    async def look(self, placement: Placement, failure: Status) -> Status:
        """Find out whether a binding took effect that was not clearly answered."""
        for attempt in count():
            try:
                return self._seen(placement, await self._find(placement.pod), failure)
            except (Unauthorized, Forbidden):
                return failure
            except (ApiError, ApiUnavailable, TimeoutError):
                await self._pause(attempt, is_refused=False)
        raise AssertionError("unreachable")

    def _seen(self, placement: Placement, found: Pod | None, failure: Status) -> Status:
        """What became of a placement; warn if other schedulers bind our pods again and again."""
        is_same = found is not None and found.uid == placement.pod.uid
        if placement.is_bound_by_other and is_same and found is not None and found.spec.node_name:
            self._bound_by_others += 1
            if self._bound_by_others > _FEW_BY_OTHERS:
                log.warning(
                    "Another scheduler serves the same pods. Fix: give each its own schedulerName",
                    extra=kv(
                        pod=placement.pod.key,
                        node=found.spec.node_name,
                        profile=placement.profile.name,
                        refusedBindings=self._bound_by_others,
                    ),
                )
        return _seen(placement, found, failure)

    async def _find(self, pod: Pod) -> Pod | None:
        """Fetch the current pod by name, with a list: the role may allow list but not get.

        A list that is older than the pod says nothing about it: the pod would seem to be gone.
        """
        found = await self._client.list_all(
            PODS,
            namespace=pod.metadata.namespace,
            field_selector=f"metadata.name={pod.metadata.name}",
        )
        if found.undecodable:
            raise ApiUnavailable(f"pod {pod.key} cannot be read")
        if is_older(found.resource_version, pod.metadata.resource_version):
            raise ApiUnavailable(f"pod {pod.key}: the API server's list is older than the pod")
        return next(iter(found.items), None)


def _may_arrive(problem: Exception) -> bool:
    """Whether a binding that was answered so may have taken effect, or may later."""
    if isinstance(problem, ApiUnavailable):
        return problem.maybe_done
    return isinstance(problem, ServerError | TimeoutError)


def _seen(placement: Placement, current: Pod | None, failure: Status) -> Status:
    """What became of a placement, going by the pod of that name as it is now."""
    pod, node = placement.pod, placement.node
    if current is None or current.uid != pod.uid:
        placement.is_lost = True
        return failure
    if current.spec.node_name == node:
        log.info(
            "Pod is bound to the node although the binding request failed",
            extra=kv(pod=pod.key, node=node, answer=failure.message),
        )
        return SUCCESS
    placement.is_lost = bool(current.spec.node_name)
    return failure
