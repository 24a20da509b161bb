"""Leader election: who leads, for how long, and what the Lease says meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from stowplan.clock import VirtualClock, rfc3339_micro
from stowplan.errors import LeadershipLost
from tests.unit.api.api_kit import reply, until
from tests.unit.api.lease_kit import PATH, Stage, lease_stage


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with lease_stage() as ready:
        yield ready


async def test_the_first_one_creates_the_lease(stage: Stage) -> None:
    clock = VirtualClock()
    elector = stage.elector("one", clock)
    assert elector.leader == ""
    assert await elector.try_acquire()
    assert elector.is_leader
    assert elector.leader == "one"
    now = rfc3339_micro(clock.time())
    assert stage.leases.spec == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": 0,
    }
    assert [(seen.method, seen.path) for seen in stage.server.seen] == [
        ("GET", f"{PATH}/stowplan"),
        ("POST", PATH),
    ]


async def test_renewing_moves_only_the_renew_time_and_needs_one_request(stage: Stage) -> None:
    clock = VirtualClock()
    elector = stage.elector("one", clock)
    await elector.try_acquire()
    before = stage.leases.spec
    stage.server.seen.clear()
    clock.advance(2)
    assert await elector.try_renew()
    assert [seen.method for seen in stage.server.seen] == ["PUT"]
    assert stage.leases.spec == {**before, "renewTime": rfc3339_micro(clock.time())}


async def test_a_held_lease_is_left_alone_until_it_has_not_changed_for_its_duration(
    stage: Stage,
) -> None:
    """Only what we observe counts: the times in the record are of another machine's clock."""
    clock = VirtualClock()
    elector = stage.elector("two", clock)
    stage.leases.held_by("one", renewed=clock.time() - 10_000)
    assert not await elector.try_acquire()
    clock.advance(14)
    assert not await elector.try_acquire()
    stage.leases.held_by("one", renewed=clock.time() + 10_000)
    clock.advance(14)
    assert not await elector.try_acquire(), "it changed, so its time begins anew"
    clock.advance(14.9)
    assert not await elector.try_acquire()
    clock.advance(0.2)
    assert await elector.try_acquire()
    now = rfc3339_micro(clock.time())
    assert stage.leases.spec == {
        "holderIdentity": "two",
        "leaseDurationSeconds": 15,
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": 4,
        "strategy": "OldestEmulationVersion",
    }
    assert stage.leases.lease is not None
    assert stage.leases.lease["metadata"]["annotations"] == {"kept": "yes"}


async def test_a_released_lease_is_free_at_once(stage: Stage) -> None:
    clock = VirtualClock()
    stage.leases.held_by("")
    assert await stage.elector("two", clock).try_acquire()
    assert stage.leases.spec["leaseTransitions"] == 4


async def test_of_two_who_try_only_one_wins(stage: Stage) -> None:
    clock = VirtualClock()
    stage.leases.held_by("gone")
    electors = [stage.elector(name, clock) for name in ("a", "b", "c", "d")]
    for elector in electors:
        assert not await elector.try_acquire()
    clock.advance(16)
    won = await asyncio.gather(*(elector.try_acquire() for elector in electors))
    assert won.count(True) == 1
    assert stage.leases.writes == 1
    winner = electors[won.index(True)]
    assert winner.is_leader
    assert [elector.is_leader for elector in electors].count(True) == 1
    assert stage.leases.spec["holderIdentity"] == winner.leader


async def test_creating_at_the_same_time(stage: Stage) -> None:
    electors = [stage.elector(name) for name in ("a", "b")]
    won = await asyncio.gather(*(elector.try_acquire() for elector in electors))
    assert won.count(True) == 1


async def test_an_own_lease_found_after_a_restart_goes_on(stage: Stage) -> None:
    stage.leases.held_by("one")
    assert await stage.elector("one", VirtualClock()).try_acquire()
    assert stage.leases.spec["leaseTransitions"] == 3
    assert stage.leases.spec["acquireTime"] == rfc3339_micro(0)


async def test_leadership_ends_by_our_own_clock_even_if_nobody_tells(stage: Stage) -> None:
    """At the renew deadline: for the rest of the lease what is under way has time to end."""
    clock = VirtualClock()
    elector = stage.elector("one", clock)
    await elector.try_acquire()
    clock.advance(9.9)
    leads = [elector.is_leader]
    elector.guard.check()
    clock.advance(0.2)
    leads.append(elector.is_leader)
    assert leads == [True, False]
    with pytest.raises(LeadershipLost, match="could not be renewed within 10 s"):
        elector.guard.check()
    assert elector.guard.timeout_s == 5.0
    assert elector.overdue_s() == 0
    clock.advance(9.9)
    assert elector.overdue_s() == pytest.approx(5.0)


async def test_our_own_time_runs_from_before_the_write(stage: Stage) -> None:
    """Others may see the write as soon as it is made, long before its answer reaches us."""
    clock = VirtualClock()
    inner = stage.server.handler

    async def slow(request: web.Request) -> web.StreamResponse:
        answer = await inner(request)
        if request.method != "GET":
            clock.advance(9)
        return answer

    stage.server.handler = slow
    elector = stage.elector("one", clock)
    assert await elector.try_acquire()
    clock.advance(0.9)
    leads = [elector.is_leader]
    clock.advance(0.2)
    leads.append(elector.is_leader)
    assert leads == [True, False]


async def test_a_conflict_falls_back_to_reading(stage: Stage) -> None:
    elector = stage.elector("one", VirtualClock())
    await elector.try_acquire()
    assert stage.leases.lease is not None
    stage.leases.lease["metadata"]["labels"] = {"by": "somebody"}
    stage.leases.put(stage.leases.lease)
    assert await elector.try_renew()
    assert stage.leases.lease["metadata"]["labels"] == {"by": "somebody"}
    assert elector.is_leader


async def test_a_lease_taken_away_is_noticed(stage: Stage) -> None:
    elector = stage.elector("one", VirtualClock())
    await elector.try_acquire()
    stage.leases.held_by("two")
    with pytest.raises(LeadershipLost, match="two holds it now"):
        await elector.try_renew()
    assert not elector.is_leader
    assert elector.leader == "two"


async def test_a_deleted_lease_is_created_anew_by_the_next_who_tries(stage: Stage) -> None:
    elector = stage.elector("one", VirtualClock())
    await elector.try_acquire()
    stage.leases.lease = None
    with pytest.raises(LeadershipLost, match="no instance holds it now"):
        await elector.try_renew()
    assert not elector.is_leader, "another may have led in between"
    assert await stage.elector("two", VirtualClock()).try_acquire()
    assert stage.leases.spec["leaseTransitions"] == 0


@pytest.mark.parametrize("is_frozen", [True, False])
async def test_holding_never_acquires_a_lease_that_another_had(
    stage: Stage, is_frozen: bool
) -> None:
    """One freezes, two wins, fills the nodes and gives the lease up: one knows nothing of that."""
    clock = VirtualClock()
    elector = stage.elector("one", clock)
    await elector.acquire()
    if is_frozen:
        clock.advance(100)
    stage.leases.held_by("two")
    stage.leases.held_by("")
    writes = stage.leases.writes
    with pytest.raises(LeadershipLost):
        await asyncio.wait_for(elector.hold(), 20)
    assert not elector.is_leader
    assert stage.leases.writes == writes, "left to whoever asks for it first"


async def test_holding_never_goes_on_after_a_lapse(stage: Stage) -> None:
    """Even where nobody else was there: whether anybody was is for the next start to find out."""
    clock = VirtualClock()
    elector = stage.elector("one", clock)
    await elector.acquire()
    clock.advance(10.1)
    with pytest.raises(LeadershipLost, match="could not be renewed within 10 s"):
        await asyncio.wait_for(elector.hold(), 20)


async def test_an_answer_that_comes_after_the_deadline_is_too_late(stage: Stage) -> None:
    """A process that is frozen while it renews; others may have led since."""
    clock = VirtualClock()
    inner = stage.server.handler
    elector = stage.elector("one", clock)
    await elector.acquire()

    async def frozen(request: web.Request) -> web.StreamResponse:
        answer = await inner(request)
        clock.advance(60)
        return answer

    stage.server.handler = frozen
    with pytest.raises(LeadershipLost):
        await asyncio.wait_for(elector.hold(), 20)


async def test_a_renewal_whose_answer_was_lost_counts_from_the_one_before(stage: Stage) -> None:
    """Reading our own record tells that it was written, not when."""
    clock = VirtualClock()
    elector = stage.elector("one", clock)
    await elector.acquire()
    clock.advance(6)
    inner = stage.server.handler

    async def lossy(request: web.Request) -> web.StreamResponse:
        answer = await inner(request)
        return answer if request.method == "GET" else reply(b"", status=500)

    stage.server.handler = lossy
    assert not await elector.try_renew()
    assert stage.leases.spec["renewTime"] == rfc3339_micro(clock.time())
    clock.advance(3.9)
    leads = [elector.is_leader]
    clock.advance(0.2)
    leads.append(elector.is_leader)
    assert leads == [True, False]


async def test_a_refused_write_ends_holding_at_once(stage: Stage) -> None:
    clock = VirtualClock()
    elector = stage.elector("one", clock, retry_period_s=8)
    await elector.acquire()
    holding = asyncio.create_task(elector.hold())
    await until(lambda: stage.leases.writes == 2)
    clock.advance(20)
    with pytest.raises(LeadershipLost):
        elector.guard.check()
    done, _ = await asyncio.wait({holding}, timeout=5)
    assert done, "it does not sleep out the retry period"
    with pytest.raises(LeadershipLost):
        await holding


async def test_nothing_passes_the_guard_after_release(stage: Stage) -> None:
    elector = stage.elector("one", VirtualClock())
    await elector.acquire()
    await elector.release()
    with pytest.raises(LeadershipLost, match="no instance holds it now"):
        elector.guard.check()


async def test_a_broken_number_of_seconds_is_rounded_up(stage: Stage) -> None:
    """Others begin when what the record says is over, and not before we have ended."""
    elector = stage.elector("one", lease_duration_s=2.5, renew_deadline_s=2.2, retry_period_s=1)
    await elector.try_acquire()
    assert stage.leases.spec["leaseDurationSeconds"] == 3


@pytest.mark.parametrize(
    "junk",
    [b"junk", b"[]", b'{"spec":5}', b'{"spec":{"leaseDurationSeconds":"x"}}', b'{"spec":null}'],
)
async def test_an_unreadable_lease_is_nobodys_and_no_crash(stage: Stage, junk: bytes) -> None:
    async def handler(request: web.Request) -> web.Response:
        return reply(junk)

    stage.server.handler = handler
    elector = stage.elector("one")
    assert not await elector.try_acquire()
    assert not elector.is_leader
