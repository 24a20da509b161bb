"""Watches whose connections stay open and carry nothing: noticed by an own bind, within seconds."""

from __future__ import annotations

from stowplan.lab.faults import Fault
from tests.integration.target import Target
from tests.waiting import wait_for


def watched(target: Target, plural: str) -> int:
    """How often the scheduler opened a watch."""
    return sum(
        1
        for _, path in target.proxy.requests
        if "watch=1" in path and path.partition("?")[0].endswith(f"/{plural}")
    )


def looked_up(target: Target) -> int:
    return sum(1 for _, path in target.proxy.requests if "fieldSelector=metadata.name" in path)


def test_an_unconfirmed_bind_reveals_it(target: Target) -> None:
    target.create_nodes("n1")
    scheduler = target.start()
    scheduler.wait_until_scheduling()
    target.create_pods("a")
    target.wait_bound("a")
    wait_for("every watch to be open", lambda: watched(target, "pods") == 1)
    swallowing = target.proxy.inject(
        Fault("POST", "/binding", before=lambda _: target.proxy.swallow_watches())
    )

    target.create_pods("b")
    target.wait_bound("b")
    assert swallowing.seen == 1
    target.create_pods("c")
    # A minute and a quarter without bookmarks would reveal it, too: this is sooner.
    target.wait_bound("c", timeout_s=45)

    assert scheduler.log.count('"Watch fell silent, reconnecting" pod="default/b"') == 1
    assert (watched(target, "pods"), watched(target, "nodes")) == (2, 2)
    assert looked_up(target) == 1
    assert "listing pods" not in scheduler.log
