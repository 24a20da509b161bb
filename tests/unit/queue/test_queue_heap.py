"""The heap: order, removal, refreshing, and orders that a plugin gives."""

from __future__ import annotations

import logging
import random

import msgspec
import pytest

from stowplan.clock import VirtualClock
from stowplan.plugin_failures import PluginFailures
from stowplan.queue.heap import PodHeap, SortKey, key_from_less, priority_then_age, safe_key
from stowplan.queue.pod import QueuedPod
from tests.unit.queue.queue_kit import make_pod


def queued(name: str, priority: int = 0, timestamp: float = 0.0, sequence: int = 0) -> QueuedPod:
    return QueuedPod(make_pod(name, priority=priority), timestamp, sequence=sequence)


def drain(heap: PodHeap) -> list[str]:
    names: list[str] = []
    while (pod := heap.pop()) is not None:
        names.append(pod.pod.metadata.name)
    return names


def less_by_priority(a: QueuedPod, b: QueuedPod) -> bool:
    return a.pod.priority > b.pod.priority


def reprioritise(pod: QueuedPod, priority: int) -> None:
    spec = msgspec.structs.replace(pod.pod.spec, priority=priority)
    pod.replace_pod(msgspec.structs.replace(pod.pod, spec=spec))


FAILURES = PluginFailures(VirtualClock())
ORDERS = [priority_then_age, key_from_less(less_by_priority, FAILURES)]


@pytest.mark.parametrize("order", ORDERS)
def test_equal_pods_leave_in_the_order_of_their_sequence(order: SortKey) -> None:
    heap = PodHeap(order)
    pods = [queued(f"p{number}", sequence=number) for number in range(50)]
    random.Random(7).shuffle(pods)
    for pod in pods:
        heap.add(pod)
    assert [pod.sequence for pod in heap.in_order()] == list(range(50))
    assert drain(heap) == [f"p{number}" for number in range(50)]


@pytest.mark.parametrize("order", ORDERS)
def test_refresh_moves_a_pod_up_and_down(order: SortKey) -> None:
    heap = PodHeap(order)
    pods = [queued(f"p{number}", priority=number, sequence=number) for number in range(5)]
    for pod in pods:
        heap.add(pod)
    for pod, priority in ((pods[0], 10), (pods[4], -1)):
        reprioritise(pod, priority)
        heap.refresh(pod)
    assert len(heap) == 5
    assert drain(heap) == ["p0", "p3", "p2", "p1", "p4"]


def test_removed_pods_do_not_come_back_and_leave_no_memory() -> None:
    heap = PodHeap(priority_then_age)
    kept = queued("kept", priority=-1)
    heap.add(kept)
    for number in range(1000):
        pod = queued(f"p{number}", priority=number, sequence=number)
        heap.add(pod)
        assert heap.remove(pod.key) is pod
        assert heap.remove(pod.key) is None
        assert len(heap) == 1
    assert len(heap._heap) < 50
    assert heap.peek() is kept
    assert drain(heap) == ["kept"]


def test_a_pod_of_the_same_name_takes_the_place() -> None:
    heap = PodHeap(priority_then_age)
    heap.add(queued("a", priority=9, sequence=1))
    heap.add(queued("b", priority=5, sequence=2))
    heap.add(queued("a", priority=1, sequence=3))
    assert drain(heap) == ["b", "a"]


def test_an_order_that_raises_falls_back(caplog: pytest.LogCaptureFixture) -> None:
    def broken_key(pod: QueuedPod) -> int:
        if pod.pod.metadata.name == "odd":
            raise RuntimeError("no key for odd pods")
        return pod.pod.priority  # lowest first, unlike the fallback

    heap = PodHeap(safe_key(broken_key, FAILURES))
    with caplog.at_level(logging.ERROR):
        for number, name in enumerate(("high", "odd", "low")):
            heap.add(queued(name, priority=5 if name == "high" else 0, sequence=number))
    assert drain(heap) == ["low", "high", "odd"]
    assert "no key for odd pods" in caplog.text


def test_a_less_that_raises_falls_back(caplog: pytest.LogCaptureFixture) -> None:
    def broken_less(a: QueuedPod, b: QueuedPod) -> bool:
        raise RuntimeError("cannot compare")

    heap = PodHeap(key_from_less(broken_less, FAILURES))
    with caplog.at_level(logging.ERROR):
        for number, priority in enumerate((1, 3, 2, 3)):
            heap.add(queued(f"p{number}", priority=priority, sequence=number))
        assert drain(heap) == ["p1", "p3", "p2", "p0"]
    assert "cannot compare" in caplog.text
