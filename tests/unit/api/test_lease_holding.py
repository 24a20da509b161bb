"""Leader election over time: acquire, hold and release."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.lease import LeaderElector
from stowplan.clock import VirtualClock, rfc3339_micro
from stowplan.errors import ConfigError, Forbidden, LeadershipLost
from tests.unit.api.api_kit import until
from tests.unit.api.lease_kit import PATIENT, QUICK, Stage, lease_stage


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with lease_stage() as ready:
        yield ready


async def test_acquire_waits_for_the_holder_and_says_who_leads(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "stowplan")
    first, second = stage.elector("one", **PATIENT), stage.elector("two", **PATIENT)
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    await until(lambda: second.leader == "one")
    assert not waiting.done()
    await first.release()
    assert not first.is_leader
    await asyncio.wait_for(waiting, 10)
    assert second.is_leader
    leaders = [
        record.__dict__["kv"]["leader"]
        for record in caplog.records
        if record.message == "New leader elected"
    ]
    assert leaders == ["one", "one", "two"]


async def test_release_writes_what_client_go_writes(stage: Stage) -> None:
    clock = VirtualClock()
    elector = stage.elector("one", clock)
    stage.leases.held_by("")
    await elector.try_acquire()
    clock.advance(3)
    await elector.release()
    now = rfc3339_micro(clock.time())
    assert stage.leases.spec == {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": 4,
        "strategy": "OldestEmulationVersion",
    }


async def test_release_of_a_lease_that_is_not_ours_touches_nothing(stage: Stage) -> None:
    elector = stage.elector("one", VirtualClock())
    await elector.release()
    await elector.try_acquire()
    stage.leases.held_by("two")
    await elector.release()
    assert stage.leases.spec["holderIdentity"] == "two"


async def test_release_never_raises(stage: Stage) -> None:
    elector = stage.elector("one", VirtualClock())
    await elector.try_acquire()
    stage.leases.fails_with = 500
    await elector.release()
    assert not elector.is_leader


async def test_hold_renews_and_survives_a_short_failure(stage: Stage) -> None:
    elector = stage.elector("one", **PATIENT)
    await elector.acquire()
    holding = asyncio.create_task(elector.hold())
    await until(lambda: stage.leases.writes >= 3)
    stage.leases.fails_with = 503
    failures = len(stage.server.seen)
    await until(lambda: len(stage.server.seen) > failures + 2)
    stage.leases.fails_with = 0
    writes = stage.leases.writes
    await until(lambda: stage.leases.writes >= writes + 3)
    assert elector.is_leader
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)


@pytest.mark.parametrize("how", ["errors", "silence"])
async def test_hold_ends_at_the_deadline(stage: Stage, how: str) -> None:
    elector = stage.elector("one", **QUICK)
    await elector.acquire()
    if how == "errors":
        stage.leases.fails_with = 500
    else:
        stage.leases.is_stuck = True
    holding = asyncio.create_task(elector.hold())
    await asyncio.wait({holding}, timeout=20)
    assert holding.done()
    with pytest.raises(LeadershipLost, match=r"kube-system/stowplan could not be renewed within"):
        await holding


async def test_hold_ends_at_once_when_another_leads(stage: Stage) -> None:
    elector = stage.elector("one", **PATIENT)
    await elector.acquire()
    holding = asyncio.create_task(elector.hold())
    await until(lambda: stage.leases.writes >= 2)
    stage.leases.held_by("two")
    with pytest.raises(LeadershipLost, match="two holds it now"):
        await asyncio.wait_for(holding, 20)


async def test_rights_that_are_missing_end_the_first_try_only(stage: Stage) -> None:
    stage.leases.fails_with = 403
    with pytest.raises(Forbidden, match="broken"):
        await stage.elector("one").acquire()
    elector = stage.elector("two")
    stage.leases.fails_with = 0
    assert await elector.try_acquire()
    stage.leases.fails_with = 403
    assert not await elector.try_renew()


async def test_an_api_server_that_is_away_is_told_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    elector = stage.elector("one", **PATIENT)
    stage.leases.fails_with = 500
    acquiring = asyncio.create_task(elector.acquire())
    await until(lambda: len(stage.server.seen) >= 4)
    stage.leases.fails_with = 0
    await asyncio.wait_for(acquiring, 10)
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1


@pytest.mark.parametrize(
    ("identity", "timing", "field"),
    [
        ("", {}, "leader election identity"),
        ("me", {"lease_duration_s": 10}, "leaderElection.leaseDuration"),
        ("me", {"renew_deadline_s": 2}, "leaderElection.renewDeadline"),
        ("me", {"retry_period_s": 0}, "leaderElection.renewDeadline"),
    ],
)
def test_timings_that_cannot_work(identity: str, timing: dict[str, Any], field: str) -> None:
    client = ApiClient(ClusterConfig(server="http://127.0.0.1:1"))
    with pytest.raises(ConfigError) as caught:
        LeaderElector(client, "l", "ns", identity, **timing)
    assert caught.value.where == field
