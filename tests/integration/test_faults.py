"""A live scheduler survives each fault of the proxy that test_bad_days.py does not have.

Every pod is bound, no node holds more than it may, and the process runs on without a traceback. On
the embedded server alone: the proxy is the same in front of both.
"""

from __future__ import annotations

from collections import Counter

import pytest

from stowplan.lab.faults import ALWAYS, Fault
from tests.integration.target import Scheduler, Target
from tests.waiting import wait_for

pytestmark = pytest.mark.parametrize("target", ["embedded"], indirect=True)

LISTED = r"^/api/v1/(pods|nodes)$"


def check(target: Target, scheduler: Scheduler, pods_per_node: int) -> None:
    nodes = Counter(pod["spec"].get("nodeName", "") for pod in target.pods().values())
    assert nodes.pop("", 0) == 0, "every pod is bound"
    assert max(nodes.values()) <= pods_per_node
    assert scheduler.process.poll() is None
    assert "Traceback" not in scheduler.log


@pytest.mark.parametrize(
    "fault",
    [
        Fault("create", resource="pods/binding", times=3, status=429),
        Fault("create", resource="pods/binding", times=3, half=True),
        Fault("create", resource="pods/binding", times=3, bytes_per_s=2000),
        Fault("create", resource="pods/binding", times=3, late_s=0.3),
        Fault("create", resource="pods/binding", times=4, chance=0.5, delay_s=0.5),
        Fault("create", resource="events", times=3, half=True),
    ],
    ids=["429-alone", "half", "slow", "late", "delay", "event-half"],
)
def test_requests(target: Target, fault: Fault) -> None:
    fault.seen = 0
    target.create_nodes("n1", "n2", pods=4)
    scheduler = target.start()
    scheduler.wait_until_scheduling()
    target.proxy.inject(fault)
    names = [f"p{number}" for number in range(8)]
    target.create_pods(*names)

    target.wait_bound(*names)

    assert fault.seen
    check(target, scheduler, 4)
    for name in names:
        target.wait_event(name, "Scheduled")


@pytest.mark.parametrize(
    "fault",
    [
        Fault("watch", times=6, garbage=b"\xff\xfe{{{\n"),
        Fault("watch", times=6, garbage=b'{"type":"ADDED","object":7}\n'),
        Fault("watch", times=6, garbage=b'{"type":"MODIFIED"}\n'),
        Fault("watch", times=6, garbage=b"[" * 20_000 + b"\n"),
        Fault("watch", times=30, ends=True),
        Fault("watch", times=20, expires=True),
        Fault("watch", times=20, status=410),
        Fault("watch", times=4, after=1, half=True),
        Fault("watch", times=4, bytes_per_s=20_000),
        Fault("list", path=LISTED, times=3, half=True),
        Fault("list", path=LISTED, times=3, status=429),
        Fault("list", path=LISTED, times=3, status=503),
    ],
    ids=[
        "garbage",
        "wrong-types",
        "no-object",
        "deep",
        "ends",
        "expires",
        "410",
        "half",
        "slow",
        "list-half",
        "list-429",
        "list-503",
    ],
)
def test_watches_and_lists(target: Target, fault: Fault) -> None:
    """The watches are cut, so that the fault meets new ones, and lists follow where it wants."""
    fault.seen = 0
    target.create_nodes("n1", "n2", pods=4)
    scheduler = target.start()
    scheduler.wait_until_scheduling()
    target.create_pods("a", "b")
    target.wait_bound("a", "b")
    if fault.verb == "list":
        target.proxy.inject(Fault("watch", path=LISTED, times=2, status=410))
    target.proxy.inject(fault)
    target.proxy.cut_watches()
    wait_for("the fault", lambda: fault.seen)
    target.delete_pod("a")
    names = [f"p{number}" for number in range(7)]
    target.create_pods(*names)

    target.wait_bound("b", *names)

    check(target, scheduler, 4)


def test_a_duplicated_list_counts_no_pod_twice(target: Target) -> None:
    target.create_nodes("n1", pods=4)
    target.create_pods("a", "b", nodeName="n1")
    fault = target.proxy.inject(Fault("list", path=LISTED, times=ALWAYS, duplicated=True))
    scheduler = target.start()
    target.create_pods("c", "d")

    target.wait_bound("c", "d")

    assert fault.seen
    check(target, scheduler, 4)


def test_a_stale_list_is_caught_up_with(target: Target) -> None:
    """The list is older than what was seen: pods since then are bound, and one is gone."""
    target.create_nodes("n1", pods=4)
    target.create_pods("a", nodeName="n1")
    scheduler = target.start()
    scheduler.wait_until_scheduling()
    target.create_pods("b", "c")
    target.wait_bound("b", "c")
    target.delete_pod("a")
    stale = target.proxy.inject(Fault("list", resource="pods", times=1, stale=True))
    target.proxy.inject(Fault("watch", resource="pods", times=1, status=410))
    target.proxy.cut_watches()
    wait_for("the stale list", lambda: stale.seen)
    target.create_pods("d", "e")

    target.wait_bound("d", "e")

    check(target, scheduler, 4)


def test_an_api_server_that_is_slow_in_everything(target: Target) -> None:
    target.create_nodes("n1", "n2", pods=4)
    target.proxy.inject(Fault("*", times=ALWAYS, delay_s=0.1, bytes_per_s=50_000))
    scheduler = target.start()
    names = [f"p{number}" for number in range(8)]
    target.create_pods(*names)

    target.wait_bound(*names)

    check(target, scheduler, 4)
