"""What every change of the cluster means to the cache and to whoever waits."""

from __future__ import annotations

import pytest

from stowplan.api.objects import Pod
from stowplan.cluster.compare import compare
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import error, unschedulable, wait
from stowplan.queue.events import ActionType, ClusterEvent, EventHint
from stowplan.scheduler.outcome import Placement
from stowplan.testing import node, pod
from stowplan.testing.builders import DELETED
from tests.unit.scheduler.engine_bench import Bench
from tests.unit.scheduler.scheduler_kit import plugin


def one_place(*plugins: Plugin) -> Bench:
    """A node with room for one pod."""
    return Bench(*plugins, nodes=[node("n1", pods=1)])


def waiting_pod(it: Bench, name: str = "waiting", priority: int | None = None) -> Pod:
    """A pod that found no room and waits for an event."""
    waiting = it.create(pod(name, priority=priority))
    it.failed()
    assert it.where(waiting) == "unschedulable"
    return waiting


def is_woken(it: Bench, waiting: Pod) -> bool:
    return it.where(waiting) in ("active", "backoff")


# Pods appear


def test_a_pod_without_a_node_is_queued() -> None:
    it = Bench()
    assert it.where(it.create(pod("ours"))) == "active"
    assert it.where(it.create(pod("theirs", scheduler_name="other"))) == "nowhere"
    assert it.cache.pod_count == 0


@pytest.mark.parametrize("scheduler_name", ["default-scheduler", "other"])
def test_a_pod_with_a_node_occupies_it(scheduler_name: str) -> None:
    it = Bench(nodes=[node("n1")])
    web = it.create(pod("web", node="n1", scheduler_name=scheduler_name))
    assert it.cache.node_of(web.uid) == "n1"
    assert not it.cache.is_assumed(web.uid)
    assert it.where(web) == "nowhere"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize("place", ["", "n1"])
def test_a_finished_pod_is_nobodys_business(phase: str, place: str) -> None:
    it = Bench(nodes=[node("n1")])
    web = it.create(pod("web", node=place, phase=phase))
    assert it.cache.pod_count == 0
    assert it.where(web) == "nowhere"


def test_a_pod_on_an_unknown_node_counts_when_the_node_comes() -> None:
    it = Bench()
    it.create(pod("early", node="n1"))
    it.handlers.add_node(node("n1", pods=1))
    it.create(pod("late"))
    assert it.failed().message == "0/1 nodes are available: 1 Too many pods."


# Pods change


def test_a_queued_pod_is_tried_as_it_is_now() -> None:
    it = Bench(nodes=[node("n1", taints=["a=b:NoSchedule"])])
    web = it.create(pod("web"))
    it.update(web, tolerations=pod(tolerations=["a"]).spec.tolerations)
    assert it.placed().node == "n1"


def test_a_pod_of_another_scheduler_changes_nothing() -> None:
    it = Bench()
    web = it.create(pod("web", scheduler_name="other"))
    it.update(web, labels={"a": "b"})
    assert it.where(web) == "nowhere"


def test_the_confirmation_of_our_own_bind() -> None:
    it = Bench(nodes=[node("n1")])
    web = it.create(pod("web"))
    placement = it.placed()
    it.engine.permitted(placement)
    new = it.update(web, node_name="n1")
    assert it.cache.node_of(web.uid) == "n1"
    assert not it.cache.is_assumed(web.uid)
    assert compare(it.cache, [node("n1")], [new]).agrees


def test_a_pod_that_somebody_else_bound_leaves_the_queue() -> None:
    it = Bench(nodes=[node("n1"), node("n2")])
    web = it.create(pod("web"))
    it.update(web, node_name="n2")
    assert it.where(web) == "nowhere"
    assert it.cache.node_of(web.uid) == "n2"
    assert it.engine.attempt() is None


def test_a_pod_that_somebody_else_bound_while_it_was_tried() -> None:
    """The attempt's failure is dropped, whether or not the lookup knows already."""
    it = Bench(nodes=[node("n1", cpu=0), node("n2", cpu=0)])
    it.engine.lookup = None
    web = it.create(pod("web"))
    queued = it.queue.pop()
    assert queued is not None
    it.update(web, node_name="n2")
    assert not it.queue.add_unschedulable(queued)
    assert it.where(web) == "nowhere"


def test_a_pod_that_somebody_else_bound_while_we_were_binding_it() -> None:
    it = Bench(nodes=[node("n1"), node("n2")])
    web = it.create(pod("web"))
    placement = it.placed()
    assert placement.node == "n1"
    it.engine.permitted(placement)
    it.update(web, node_name="n2")
    assert it.cache.node_of(web.uid) == "n2"
    failure = it.engine.bind_failed(placement, error("conflict"))
    assert not failure.is_pending
    assert it.cache.node_of(web.uid) == "n2", "where it really is"


def test_our_own_patches_of_an_assumed_pod_are_not_queued() -> None:
    it = Bench(nodes=[node("n1")])
    web = it.create(pod("web"))
    placement = it.placed()
    it.engine.permitted(placement)
    it.update(web, labels={"patched": "yes"})
    assert it.where(web) == "nowhere"
    assert it.cache.is_assumed(web.uid)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_finishes_frees_its_node(phase: str) -> None:
    it = one_place()
    done = it.create(pod("done", node="n1"))
    waiting = waiting_pod(it)
    it.update(done, phase=phase)
    assert it.cache.pod_count == 0
    assert is_woken(it, waiting)


def test_a_placed_pod_that_shrinks_wakes_those_who_may_fit() -> None:
    it = Bench(nodes=[node("n1", cpu="1")])
    big = it.create(pod("big", node="n1", cpu="1"))
    waiting = it.create(pod("waiting", cpu="500m"))
    it.failed()
    it.update(big, labels={"no": "matter"})
    assert it.where(waiting) == "unschedulable"
    it.update(big, containers=pod(cpu="500m").spec.containers)
    assert is_woken(it, waiting)
    it.clock.advance(5)
    assert it.placed().node == "n1"


def test_a_placed_pod_is_an_event_for_those_who_registered_for_it() -> None:
    registered = (EventHint(ClusterEvent("Pod", ActionType.ADD)),)
    lonely = plugin(
        "Lonely",
        filter=lambda pod, node: True if node.pods else "nobody there",
        events=registered,
    )
    it = Bench(lonely, nodes=[node("n1")])
    waiting = it.create(pod("waiting"))
    assert it.failed().message == "0/1 nodes are available: 1 nobody there."
    it.create(pod("company", node="n1"))
    assert is_woken(it, waiting)


# Pods go


def test_a_queued_pod_that_is_deleted_is_forgotten() -> None:
    it = Bench(nodes=[node("n1", cpu=0)])
    web = it.create(pod("web"))
    it.delete(web)
    assert it.where(web) == "nowhere"
    late = it.create(pod("late"))
    it.failed()
    it.delete(late)
    assert it.where(late) == "nowhere"


def test_a_placed_pod_that_is_deleted_frees_its_node() -> None:
    it = one_place()
    gone = it.create(pod("gone", node="n1", scheduler_name="other"))
    waiting = waiting_pod(it)
    it.delete(gone)
    assert it.cache.pod_count == 0
    assert is_woken(it, waiting)


def binding(it: Bench) -> Placement:
    """A pod whose bind is under way."""
    it.create(pod("binding"))
    placement = it.placed()
    it.engine.permitted(placement)
    return placement


def test_a_pod_that_is_deleted_while_we_bind_it_frees_its_node() -> None:
    """The deleted pod never had a node as far as the API server knows; others must hear of it."""
    it = one_place()
    placement = binding(it)
    waiting = waiting_pod(it)
    it.delete(placement.pod)
    assert it.cache.pod_count == 0
    assert is_woken(it, waiting)
    failure = it.engine.bind_failed(placement, error("not found"))
    assert not failure.is_pending
    assert it.cache.pod_count == 0


def test_a_pod_that_begins_to_go_while_we_bind_it_frees_its_node() -> None:
    """With a finalizer it stays around, and nobody will bind it any more."""
    it = one_place()
    placement = binding(it)
    waiting = waiting_pod(it)
    it.update(placement.pod, deletion_timestamp=DELETED)
    assert it.cache.pod_count == 0
    assert is_woken(it, waiting)
    failure = it.engine.bind_failed(placement, error("being deleted"))
    assert failure.is_pending, "it is still there"
    it.clock.advance(5)
    it.queue.flush_backoff()
    assert it.placed().pod.uid == waiting.uid
    assert it.failed().message == "skip schedule deleting pod: default/binding"


@pytest.mark.parametrize("how", ["deleted", "terminating", "finished"])
def test_a_pod_that_permit_holds_is_rejected_when_it_goes(how: str) -> None:
    it = one_place(plugin("Hold", permit=wait()))
    held = it.create(pod("held"))
    placement = it.placed()
    waiting = waiting_pod(it)
    if how == "deleted":
        it.delete(held)
    elif how == "terminating":
        it.update(held, deletion_timestamp=DELETED)
    else:
        it.update(held, phase="Failed")
        del it.store[held.key]
    assert placement.waiting is not None
    status = placement.waiting.status
    assert status is not None
    assert status.is_rejected
    assert it.cache.node_of(held.uid) == "n1", "the binding cycle frees it"
    failure = it.engine.bind_failed(placement, status)
    assert failure.is_pending == (how == "terminating")
    assert it.cache.pod_count == 0
    assert is_woken(it, waiting)


def test_a_deletion_that_was_missed_is_made_good() -> None:
    """After a broken watch only the last known version is there: pending, though it was bound."""
    it = Bench(nodes=[node("n1")])
    web = it.create(pod("web"))
    it.update(web, node_name="n1")
    it.handlers.delete_pod(web)
    assert it.cache.pod_count == 0
    queued = it.create(pod("queued"))
    it.handlers.delete_pod(it.store[queued.key])
    assert it.where(queued) == "nowhere"


# Nominations


def test_the_end_of_a_nomination_wakes_those_who_respected_it() -> None:
    it = one_place()
    it.create(pod("there", node="n1"))
    promised = it.create(pod("promised", priority=5, nominated_node="n1"))
    it.queue.pop()
    low, same, high = (
        waiting_pod(it, name, priority) for name, priority in (("low", 1), ("same", 5), ("high", 9))
    )
    it.delete(promised)
    assert is_woken(it, low)
    assert is_woken(it, same)
    assert it.where(high) == "unschedulable"


@pytest.mark.parametrize(("new_node", "woken"), [("", True), ("n2", True), ("n1", False)])
def test_a_nomination_that_changes_frees_the_old_node(new_node: str, woken: bool) -> None:
    it = one_place()
    it.create(pod("there", node="n1"))
    promised = it.create(pod("promised", priority=5, nominated_node="n1"))
    assert it.queue.nominator.node_of(promised) == "n1"
    it.engine.attempt()
    it.queue.nominator.add(promised)
    low = waiting_pod(it, "low", 1)
    it.update(promised, nominated_node_name=new_node)
    assert is_woken(it, low) == woken
    assert it.queue.nominator.node_of(promised) == (new_node or None)


def test_a_new_nomination_wakes_nobody() -> None:
    it = one_place()
    it.create(pod("there", node="n1"))
    promised = it.create(pod("promised", priority=5))
    it.engine.attempt()
    low = waiting_pod(it, "low", 1)
    it.update(promised, nominated_node_name="n1")
    assert it.where(low) == "unschedulable"


# Nodes


def test_a_new_node_wakes_those_whom_it_may_help() -> None:
    it = Bench(nodes=[node("n1", cpu="1")])
    small, large = it.create(pod("small", cpu="2")), it.create(pod("large", cpu="8"))
    it.failed()
    it.failed()
    it.handlers.add_node(node("n2", cpu="4"))
    assert is_woken(it, small)
    assert it.where(large) == "unschedulable", "it would not fit on the new node either"


def test_a_changed_node_wakes_those_whom_the_change_may_help() -> None:
    old = node("n1", taints=["a=b:NoSchedule"])
    it = Bench(nodes=[old])
    waiting = waiting_pod(it)
    relabelled = node("n1", taints=["a=b:NoSchedule"], labels={"disk": "ssd"})
    it.handlers.update_node(old, relabelled)
    assert it.where(waiting) == "unschedulable"
    it.handlers.update_node(relabelled, node("n1", labels={"disk": "ssd"}))
    assert is_woken(it, waiting)
    it.clock.advance(5)
    assert it.placed().node == "n1"


def test_a_node_that_goes_is_not_used_and_its_pods_stay_known() -> None:
    it = Bench(nodes=[node("n1", cpu="1")])
    web = it.create(pod("web", node="n1", cpu="1"))
    it.handlers.delete_node(node("n1"))
    it.create(pod("next"))
    assert it.failed().message == "no nodes available to schedule pods"
    assert it.cache.node_of(web.uid) == "n1"
    it.handlers.add_node(node("n1", cpu="1"))
    it.clock.advance(20)
    it.queue.flush_backoff()
    assert it.failed().message == "0/1 nodes are available: 1 Insufficient cpu."


def test_events_during_an_attempt_are_not_lost() -> None:
    """A node came after the pod was popped and before it was put back."""
    it = Bench(plugin("No", permit=unschedulable("no")), nodes=[node("n1", cpu=0)])
    web = it.create(pod("web"))
    queued = it.queue.pop()
    assert queued is not None
    it.handlers.add_node(node("n2"))
    queued.unschedulable_plugins = {"NodeResourcesFit"}
    it.queue.add_unschedulable(queued)
    assert is_woken(it, web)


def test_a_pod_that_another_scheduler_bound_elsewhere_frees_its_reserved_place() -> None:
    it = one_place()
    web = it.create(pod("web"))
    assert it.placed().node == "n1"
    waiting = waiting_pod(it)
    it.update(web, node_name="n2")
    assert is_woken(it, waiting)
    assert it.placed().node == "n1"


def test_a_held_pod_that_another_scheduler_bound_leaves_its_node_when_it_is_deleted() -> None:
    it = Bench(plugin("Hold", permit=wait()), nodes=[node("n1"), node("n2")])
    web = it.create(pod("web"))
    placement = it.placed()
    it.update(web, node_name="n2")
    it.delete(web)
    assert it.cache.node_of(web.uid) is None
    it.engine.bind_failed(placement, error("rejected"))
    assert it.where(web) == "nowhere"
    assert not it.cache.placements()
