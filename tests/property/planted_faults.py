"""Defects planted in the scheduler, which the fault simulation must find.

Each is a change of one rule that the scheduler depends on. They exist only here: a test applies one
with monkeypatch. `tests/data/fault_scripts/planted` has a script for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from stowplan.api import informer, recorder
from stowplan.api.device_objects import ResourceClaim
from stowplan.api.guarded import WriteGuard
from stowplan.api.lease import LeaderElector
from stowplan.api.local_copy import LocalCopy
from stowplan.api.objects import Node, Pod
from stowplan.api.quantity import milli_value
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.journal import Journal
from stowplan.errors import ApiError, Gone
from stowplan.framework.status import SUCCESS, Status
from stowplan.plugins.default_binder import DefaultBinder
from stowplan.plugins.dra.facts import DeviceFacts
from stowplan.scheduler import failed_attempt, informers, process, reporter
from stowplan.scheduler.binding_points import broken
from stowplan.scheduler.binding_retries import BindingRetries
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.watch_check import WatchCheck
from stowplan.sim.faults.replica import ReplicaClock

Patch: TypeAlias = pytest.MonkeyPatch


def drop_the_lease_guard(patch: Patch) -> None:
    patch.setattr(LeaderElector, "guard", property(lambda _: WriteGuard(lambda: None, 5.0)))


def skip_the_barrier(patch: Patch) -> None:
    async def barrier(listed: Iterable[informer.Informer[Any]], *_: Any) -> None:
        for each in listed:
            await each.synced.wait()

    patch.setattr(process, "wait_at_barrier", barrier)


def forget_on_timeout(patch: Patch) -> None:
    async def settle(self: Any, plugin: Any, placement: Any, problem: Exception) -> Status:
        return broken(self._engine.failures, plugin, "Bind", problem)

    patch.setattr(BindingRetries, "settle", settle)


def take_a_lost_response_for_a_bind(patch: Patch) -> None:
    async def settle(self: Any, plugin: Any, placement: Any, problem: Exception) -> Status:
        return SUCCESS

    patch.setattr(BindingRetries, "settle", settle)


def bind_twice(patch: Patch) -> None:
    once = DefaultBinder.bind

    async def bind(self: Any, cycle: Any, pod: Pod, node: str) -> None:
        await once(self, cycle, pod, node)
        try:
            await once(self, cycle, pod, node)
        except ApiError:
            pass

    patch.setattr(DefaultBinder, "bind", bind)


def do_not_requeue_after_a_failed_bind(patch: Patch) -> None:
    def requeue(engine: Engine, queued: Any) -> bool:
        engine.queue.done(queued.uid)
        return False

    patch.setattr(failed_attempt, "_requeue", requeue)


def ignore_a_410(patch: Patch) -> None:
    attempt = informer.Informer._try

    async def watch(self: Any, call: Callable[[], Any]) -> None:
        async def without_gone() -> None:
            try:
                await call()
            except Gone:
                await asyncio.sleep(1.0)

        await attempt(self, without_gone)

    patch.setattr(informer.Informer, "_try", watch)


def lose_watch_events_after_a_reconnect(patch: Patch) -> None:
    follow = informer.Informer._follow

    async def watch(self: Any) -> None:
        self._copy.version = ""  # from now on, not from the last version seen
        await follow(self)

    patch.setattr(informer.Informer, "_follow", watch)


def skip_a_journal_entry(patch: Patch) -> None:
    append = Journal.mark

    def mark(self: Journal, row: int) -> None:
        if (self.end + 1) % 3:
            append(self, row)
        else:
            self.end = self.end

    patch.setattr(Journal, "mark", mark)


def _cpu(node: Node) -> int:
    return milli_value((node.status.allocatable or {}).get("cpu", 0))


def ignore_node_shrink(patch: Patch) -> None:
    update = EventHandlers.update_node

    def handle(self: Any, old: Node, new: Node) -> None:
        if _cpu(new) >= _cpu(old):
            update(self, old, new)

    patch.setattr(EventHandlers, "update_node", handle)


def never_confirm_assumed_pods(patch: Patch) -> None:
    add = ClusterCache.add_pod

    def confirm(self: Any, pod: Pod) -> None:
        if not self.is_assumed(pod.uid):
            add(self, pod)

    patch.setattr(ClusterCache, "add_pod", confirm)


def keep_the_place_of_a_deleted_namesake(patch: Patch) -> None:
    remove = LocalCopy._remove

    def keep(self: Any, key: str, last: Any) -> None:
        if self._resource.plural == "pods" and last.spec.node_name:
            del self.store[key]
        else:
            remove(self, key, last)

    patch.setattr(LocalCopy, "_remove", keep)


def give_up_after_429(patch: Patch) -> None:
    patch.setattr(recorder, "Throttled", type("Never", (Exception,), {}))


def trust_a_silent_watch(patch: Patch) -> None:
    async def check(self: WatchCheck) -> None:
        self._unconfirmed.clear()

    patch.setattr(WatchCheck, "check", check)
    watching = informers.watching

    def patient(resource: Any, means: informers.Means) -> informer.InformerOptions:
        return replace(watching(resource, means), inactivity_s=1e6)

    patch.setattr(informers, "watching", patient)


def ignore_suspended_time(patch: Patch) -> None:
    patch.setattr(ReplicaClock, "boottime", ReplicaClock.monotonic)


def ignore_pods_of_other_schedulers(patch: Patch) -> None:
    add, update = EventHandlers.add_pod, EventHandlers.update_pod

    def add_ours(self: Any, pod: Pod) -> None:
        if self._engine.serves(pod):
            add(self, pod)

    def update_ours(self: Any, old: Pod, new: Pod) -> None:
        if self._engine.serves(new):
            update(self, old, new)

    patch.setattr(EventHandlers, "add_pod", add_ours)
    patch.setattr(EventHandlers, "update_pod", update_ours)


def write_conditions_without_a_version(patch: Patch) -> None:
    def unversioned(pod: Pod, status: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": {"uid": pod.uid}, "status": status}

    patch.setattr(reporter, "versioned_patch", unversioned)


def forget_devices_in_flight(patch: Patch) -> None:
    def reserve(self: DeviceFacts, claim: ResourceClaim) -> None:
        self.in_flight[claim.metadata.uid] = claim

    def release(self: DeviceFacts, uid: str) -> bool:
        return self.in_flight.pop(uid, None) is not None

    patch.setattr(DeviceFacts, "reserve", reserve)
    patch.setattr(DeviceFacts, "release", release)


PLANTED: tuple[Callable[[Patch], None], ...] = (
    drop_the_lease_guard,
    skip_the_barrier,
    forget_on_timeout,
    take_a_lost_response_for_a_bind,
    bind_twice,
    do_not_requeue_after_a_failed_bind,
    ignore_a_410,
    lose_watch_events_after_a_reconnect,
    skip_a_journal_entry,
    ignore_node_shrink,
    never_confirm_assumed_pods,
    keep_the_place_of_a_deleted_namesake,
    give_up_after_429,
    trust_a_silent_watch,
    ignore_suspended_time,
    ignore_pods_of_other_schedulers,
    write_conditions_without_a_version,
    forget_devices_in_flight,
)
