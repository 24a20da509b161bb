"""`--verify-decisions N`: every N-th decision is made a second time on a rebuilt cluster.

The cache, the profile's plugins and the nominations are rebuilt from the stored objects
(`cluster.rebuild`), and the pod is decided there without any column cache. Then the engine decides
as always, and both decisions are compared (`differences`). A difference is a defect of a cache, or
of a plugin that reads more than it declares: it is logged, counted, everything derived is dropped,
and the pod is decided again.

The rebuilt decision is made first, so that both see the same state of plugins and random source.
It costs time in proportion to the cluster, so in a large one more than N decisions pass between two
checks. Not checked are decisions that ask an extender, and decisions too expensive for one
turn. In-tree plugins are constructed again; other plugins are copied with their own state, which is
therefore not checked. A plugin that draws random numbers elsewhere than from `handle.rng`, or whose
answer changes with the time of day, is reported although nothing is stale.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from copy import copy, deepcopy
from dataclasses import fields
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from stowplan.api.objects import Pod
from stowplan.cluster import compiled
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import PodInfo, compile_pod
from stowplan.cluster.rebuild import discard, fill, rebuild
from stowplan.cluster.work import DecisionDeferred
from stowplan.framework.columns import ColumnCache
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Plugin
from stowplan.framework.profile import Profile
from stowplan.logs import get_logger, kv
from stowplan.plugin_failures import describe
from stowplan.plugins.random_choice import RandomFilter, RandomScore
from stowplan.scheduler.cycle import decide_steps, judge
from stowplan.scheduler.decision import Decision
from stowplan.scheduler.differences import Difference, differences, node_differences
from stowplan.scheduler.extender_requests import Answer, Request

if TYPE_CHECKING:
    from stowplan.scheduler.engine import Engine

log = get_logger(__name__)

Differences: TypeAlias = list[Difference]

#: Differences of single nodes that the log shows.
_SHOWN: Final = 5
#: Nodes and pods that are rebuilt for each decision, at most: about 25 us of a decision's time.
_OBJECTS_PER_DECISION: Final = 2
#: So many are rebuilt for every N-th decision, whatever that costs.
_ALWAYS_REBUILT: Final = 64
#: Without caches a decision costs more work than usual before it is too expensive.
_WORK: Final = 4


class SelfCheck:
    """Verifies decisions of one engine."""

    def __init__(self, engine: Engine, every: int) -> None:
        self._engine = engine
        self._every = every
        #: How many decisions there are when the next one is due.
        self._next = every

    def decide(
        self,
        info: PodInfo,
        profile: Profile,
        make: Callable[[], Generator[Request, Answer, Decision]],
    ) -> Generator[Request, Answer, Decision]:
        """Decide by `make`, and verify the decision."""
        engine = self._engine
        cursor, turn = engine.cursor, engine.turn
        cache = ClusterCache()
        expected = self._expect(cache, info.pod, profile)
        try:
            decision = yield from make()
            if expected is None:
                return decision
            found, by_node = self._compare(decision, expected)
            if not (found or by_node):
                return decision
        except Exception as problem:
            if expected is None:
                raise
            log.exception("Only the decision on the rebuilt cluster was made")
            found, by_node = [Difference("exception", describe(problem), "")], []
        finally:
            discard(cache)
        self._report(info.pod, profile, turn, found, by_node)
        self._drop_caches()
        engine.cursor, engine.turn = cursor, turn
        engine.cache.table.work.limit(engine.decision_work)
        return (yield from make())

    def is_due(self) -> bool:
        """Whether to verify the next decision; if so, the check after it is scheduled."""
        made, cache = self._engine.turn + 1, self._engine.cache
        if made < self._next:
            return False
        objects = len(cache.table) + cache.pod_count
        pause = (objects - _ALWAYS_REBUILT) // _OBJECTS_PER_DECISION
        self._next = made + max(self._every, pause)
        return True

    def _skip(self, reason: str) -> None:
        self._engine.metrics.decision_checks_skipped.at(reason).value += 1

    def _expect(self, cache: ClusterCache, pod: Pod, profile: Profile) -> Decision | None:
        """What the decision should be, from an empty cache; None if that cannot be said."""
        try:
            with compiled.anew():
                fill(cache, self._engine.cache)
                decision = self._decide_on(cache, pod, profile)
        except DecisionDeferred:
            self._skip("expensive")
            return None
        except Exception:
            log.exception("The self-check failed; continuing", extra=kv(pod=pod.key))
            self._skip("error")
            return None
        if decision is None:
            self._skip("extender")
        return decision

    def _decide_on(self, cache: ClusterCache, pod: Pod, profile: Profile) -> Decision | None:
        engine = self._engine
        nominated = engine.queue.nominator.copy()
        steps = decide_steps(
            cache.table,
            compile_pod(pod),
            _rebuilt_profile(profile, engine.handles[profile.name], cache),
            cursor=engine.cursor,
            turn=engine.turn,
            nominated=nominated if len(nominated) else None,
            extenders=engine.extenders,
            draw_seed=engine.draw_seed,
        )
        cache.table.work.limit(_WORK * engine.decision_work)
        try:
            next(steps)
        except StopIteration as finished:
            decision: Decision = finished.value
            return decision
        finally:
            cache.table.work.unlimit()
        steps.close()
        return None

    def _compare(self, decision: Decision, expected: Decision) -> tuple[Differences, Differences]:
        """What differs as a whole, and node by node."""
        metrics = self._engine.metrics
        metrics.decision_checks.at(decision.profile).value += 1
        metrics.decision_mismatches.at(decision.profile)  # shows its 0: rate() needs a first value
        found = differences(decision, expected)
        by_node = node_differences(decision, expected)
        if found and not by_node:
            by_node = self._explained(decision, expected)
        return found, by_node

    def _explained(self, decision: Decision, expected: Decision) -> Differences:
        """What single nodes say. A decision that found a node has not recorded it: ask again."""
        if decision.diagnosis is None:
            decision = _judged(decision)
        if expected.diagnosis is None:
            with compiled.anew():
                expected = _judged(expected)
        return node_differences(decision, expected)

    def _report(
        self, pod: Pod, profile: Profile, turn: int, found: Differences, by_node: Differences
    ) -> None:
        self._engine.metrics.decision_mismatches.at(profile.name).value += 1
        log.error(
            "A decision differs from the same decision on a rebuilt cluster: a cache is stale, or "
            "a plugin reads more than it declares. Dropped all caches and decided again",
            extra=kv(
                pod=pod.key,
                profile=profile.name,
                turn=turn,
                differences=[str(each) for each in found],
                nodes=[str(each) for each in by_node[:_SHOWN]],
                moreDifferences=max(0, len(by_node) - _SHOWN),
            ),
        )

    def _drop_caches(self) -> None:
        """Derive everything again from the stored objects."""
        engine = self._engine
        rebuild(engine.cache)
        for profile in engine.profiles.values():
            profile.drop_caches()
            for plugin in profile.plugins.values():
                if _is_rebuildable(plugin):
                    # In place, because queue, profile and binding cycles hold on to it.
                    vars(plugin).update(vars(type(plugin)(plugin.args, plugin.handle)))


def _judged(decision: Decision) -> Decision:
    """The same question, with the verdicts of all nodes."""
    cycle = decision.cycle
    assert cycle.what_if is not None
    return judge(cycle.table, cycle.info, cycle.what_if.profile, nominated=cycle.what_if.nominated)


def _rebuilt_profile(profile: Profile, handle: Handle, cache: ClusterCache) -> Profile:
    """The profile on another cache, without any column that was computed before."""
    rng = Random()
    rng.setstate(handle.rng.getstate())
    twin = Handle(
        profile=handle.profile,
        table=cache.table,
        catalog=cache.catalog,
        clock=handle.clock,
        rng=rng,
        waiting=handle.waiting,
    )
    memo: dict[int, Any] = {id(handle): twin}
    memo |= {id(getattr(handle, each.name)): getattr(twin, each.name) for each in fields(handle)}
    plugins = {name: _twin(plugin, twin, memo) for name, plugin in profile.plugins.items()}
    return profile.twin(plugins, ColumnCache(0))


def _is_rebuildable(plugin: Plugin) -> bool:
    """True if everything that a plugin holds follows from its arguments and its handle."""
    is_ours = type(plugin).__module__.startswith("stowplan.plugins.")
    return is_ours and not isinstance(plugin, RandomFilter | RandomScore)


def _twin(plugin: Plugin, handle: Handle, memo: dict[int, Any]) -> Plugin:
    """The plugin for another handle: as if just started, or with a copy of its own state."""
    if _is_rebuildable(plugin):
        return type(plugin)(plugin.args, handle)
    try:
        return deepcopy(plugin, memo)
    except Exception:
        # It holds what cannot be copied: a connection, a lock.
        twin = copy(plugin)
        twin.handle = handle
        return twin
