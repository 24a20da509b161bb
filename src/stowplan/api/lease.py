"""Leader election on a Lease, as client-go does it, so that both can compete for one lease.

The process runs `acquire`, then `hold` beside its work, then `release`; everything that it writes
meanwhile passes `guard`. Invariant: another holder's lease has expired only when its record has not
changed for its duration by our own clock (clocks of machines differ); every write carries the
resourceVersion it was decided on; we lead for `renewDeadline`, counted from before the last write
that the server confirmed was sent; and `hold` never acquires: once leadership has lapsed, for
whatever reason, it ends. Other candidates count the whole `leaseDuration` from when they see that
write, so they begin at the earliest `leaseDuration - renewDeadline` after our end.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from stowplan.api.client import ApiClient, Lane
from stowplan.api.decoding import decode_answer
from stowplan.api.event_series import Reference
from stowplan.api.guarded import WriteGuard
from stowplan.api.objects import Lease, LeaseSpec
from stowplan.api.resources import LEASES
from stowplan.clock import Clock, SystemClock, rfc3339_micro
from stowplan.errors import (
    ApiError,
    ApiUnavailable,
    ConfigError,
    Forbidden,
    LeadershipLost,
    NotFound,
    Unauthorized,
)
from stowplan.loader.json_text import load_json
from stowplan.loader.numbers import whole_number
from stowplan.logs import V2, V4, V5, get_logger, kv

log = get_logger(__name__)

_JITTER = 1.2


@dataclass(frozen=True)
class _Record:
    """The part of a Lease that an election is about."""

    holder: str = ""
    duration_s: int = 0
    acquire_time: str = ""
    renew_time: str = ""
    transitions: int = 0

    @classmethod
    def of(cls, spec: LeaseSpec) -> _Record:
        return cls(
            holder=spec.holder_identity or "",
            duration_s=spec.lease_duration_seconds or 0,
            acquire_time=spec.acquire_time or "",
            renew_time=spec.renew_time or "",
            transitions=spec.lease_transitions or 0,
        )

    def spec(self) -> dict[str, Any]:
        return {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.duration_s,
            "acquireTime": self.acquire_time,
            "renewTime": self.renew_time,
            "leaseTransitions": self.transitions,
        }


def _decode_lease(body: bytes) -> tuple[dict[str, Any], _Record]:
    """The whole object and its record; a PUT must send back fields that we do not know."""
    whole = load_json(body, dict[str, Any])
    return whole, _Record.of(msgspec.convert(whole, Lease).spec)


class LeaderElector:
    """One candidate for one lease."""

    def __init__(
        self,
        client: ApiClient,
        name: str,
        namespace: str,
        identity: str,
        *,
        lease_duration_s: float = 15.0,
        renew_deadline_s: float = 10.0,
        retry_period_s: float = 2.0,
        clock: Clock | None = None,
    ) -> None:
        if not identity:
            raise ConfigError("must not be empty", where="leader election identity")
        if lease_duration_s < 1 or lease_duration_s <= renew_deadline_s:
            raise ConfigError(
                f"{lease_duration_s:g} s must be greater than renewDeadline "
                f"({renew_deadline_s:g} s), and at least 1 s",
                where="leaderElection.leaseDuration",
            )
        if retry_period_s <= 0 or renew_deadline_s <= retry_period_s * _JITTER:
            raise ConfigError(
                f"{renew_deadline_s:g} s must be greater than {_JITTER} x retryPeriod "
                f"({retry_period_s:g} s)",
                where="leaderElection.renewDeadline",
            )
        self._client = client
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._duration_s = lease_duration_s
        self._renew_deadline_s = renew_deadline_s
        self._retry_period_s = retry_period_s
        self._clock: Clock = clock or SystemClock()
        self._path = LEASES.path(namespace=namespace, name=name)
        self._lease: dict[str, Any] | None = None
        self._observed = _Record()
        self._observed_at = float("-inf")
        #: Just before the last write of ours that was confirmed.
        self._renewed_at = float("-inf")
        #: Set when a write was refused because leadership has lapsed.
        self._lapsed = asyncio.Event()
        #: The resourceVersion of the write by which the lease was won; 0 if it is no number.
        self.won_version = 0
        self._reported_leader = ""
        self._told = ""
        self._has_read = False
        self._has_tried = False

    @property
    def is_leader(self) -> bool:
        """True if we hold the lease and renewed it within the deadline.

        It depends on the clock alone, so a process that was frozen notices at once.
        """
        return self._is_ours() and self._left_s() > 0

    @property
    def guard(self) -> WriteGuard:
        """Allows writes while we lead, with a timeout that ends before another can lead."""
        return WriteGuard(self.check, self._duration_s - self._renew_deadline_s)

    def check(self) -> None:
        """Raise LeadershipLost unless we lead."""
        if not self.is_leader:
            self._lapsed.set()
            raise self._lost()

    @property
    def leader(self) -> str:
        """The identity last seen in the lease."""
        return self._observed.holder

    @property
    def reference(self) -> Reference:
        """The lease as it was read or written last, for events about it."""
        meta = (self._lease or {}).get("metadata", {})
        return Reference(
            LEASES.kind,
            self._namespace,
            self._name,
            meta.get("uid", ""),
            LEASES.api_version,
            meta.get("resourceVersion", ""),
        )

    def overdue_s(self) -> float:
        """Seconds since a lease that we hold expired, else 0 (for /healthz)."""
        if not self._is_ours():
            return 0.0
        return max(0.0, self._clock.boottime() - self._renewed_at - self._duration_s)

    async def acquire(self) -> None:
        """Return when we lead. Raise only if access to the lease is denied."""
        while not await self.try_acquire():
            wait_s = self._retry_period_s * (1 + random.random() * _JITTER)
            await asyncio.sleep(wait_s)

    async def hold(self) -> None:
        """Renew until cancelled; raise LeadershipLost as soon as we no longer lead.

        DIVERGES: holding never acquires. client-go's renewal acquires again a lease that ran out
        while the process was frozen, or that another has held and released, and goes on with what
        it knew before.
        """
        self._lapsed.clear()
        while True:
            try:
                await self._renew()
            except LeadershipLost as error:
                log.info("Failed to renew lease", extra=kv(lock=self._lock, err=error))
                raise
            log.log(V5, "Successfully renewed lease", extra=kv(lock=self._lock))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._retry_period_s):
                    await self._lapsed.wait()

    async def _renew(self) -> None:
        deadline = asyncio.timeout(self._left_s())
        try:
            async with deadline:
                self.check()
                while not await self.try_renew():
                    await asyncio.sleep(self._retry_period_s)
                    self.check()
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise self._lost() from error
        self.check()  # the answer may have come when it was too late

    async def release(self) -> None:
        """Release the lease, so that another need not wait for its expiry; never raises."""
        if not self._is_ours():
            return
        self._renewed_at = float("-inf")
        try:
            await self._get()
            if not self._is_ours():
                return
            now = self._clock.time()
            record = _Record(
                holder="",
                duration_s=1,
                acquire_time=rfc3339_micro(now),
                renew_time=rfc3339_micro(now),
                transitions=self._observed.transitions,
            )
            await self._update(record)
        except (ApiError, ApiUnavailable) as error:
            log.error("Failed to release lease", extra=kv(lock=self._lock, err=error))
            self._observed = _Record()
            return
        log.info("Released leader lease", extra=kv(lock=self._lock))

    async def try_acquire(self) -> bool:
        """Try once to become the leader; False if another leads or the API fails."""
        if not self._has_tried:
            self._has_tried = True
            log.info("Attempting to acquire leader lease...", extra=kv(lock=self._lock))
        has_won = await self._tried(self._acquire())
        if has_won:
            self.won_version = whole_number(self.reference.resource_version) or 0
            log.info("Successfully acquired lease", extra=kv(lock=self._lock))
        else:
            log.log(V4, "Failed to acquire lease", extra=kv(lock=self._lock))
        return has_won

    async def _tried(self, attempt: Awaitable[bool]) -> bool:
        """The result of an attempt; False if the API fails. Raises if it never let us read."""
        try:
            succeeded = await attempt
        except (ApiError, ApiUnavailable) as error:
            if isinstance(error, Unauthorized | Forbidden) and not self._has_read:
                raise
            self._tell(error)
            return False
        finally:
            self._report_leader()
        self._told = ""
        return succeeded

    async def try_renew(self) -> bool:
        """Try once to stay the leader; False if the API fails.

        LeadershipLost if the lease is not the one we wrote: another may have led meanwhile.
        """
        return await self._tried(self._write_renewal())

    async def _write_renewal(self) -> bool:
        try:
            await self._update(self._own_record(keep=True))
        except (ApiError, ApiUnavailable) as error:
            log.log(
                V2,
                "Failed to update lease optimistically, falling back to slow path",
                extra=kv(lock=self._lock, err=error),
            )
            await self._read_own()
            await self._update(self._own_record(keep=True))
        return True

    async def _read_own(self) -> None:
        """Read the lease again; LeadershipLost if more than its renew time changed."""
        held = self._observed
        with suppress(NotFound):
            await self._get()
        now = self._observed
        if (now.holder, now.acquire_time, now.transitions) != (
            self._identity,
            held.acquire_time,
            held.transitions,
        ):
            # DIVERGES: the lead is given up as soon as another holds the lease, or it was deleted.
            # client-go goes on until the deadline.
            self._renewed_at = float("-inf")
            raise self._lost()

    async def _acquire(self) -> bool:
        try:
            await self._get()
        except NotFound:
            await self._create(self._own_record(keep=False))
            return True
        is_held = self._observed.holder != "" and self._has_not_run_out()
        if is_held and not self._is_ours():
            return False
        await self._update(self._own_record(keep=self._is_ours()))
        return True

    def _own_record(self, *, keep: bool) -> _Record:
        """The record to write. `keep`: we lead already, so only the renew time changes."""
        now = rfc3339_micro(self._clock.time())
        transitions = self._observed.transitions
        if not keep and self._lease is not None:
            transitions += 1
        return _Record(
            holder=self._identity,
            # DIVERGES: rounded up. client-go rounds down, so that others may begin before we end.
            duration_s=math.ceil(self._duration_s),
            acquire_time=(self._observed.acquire_time or now) if keep else now,
            renew_time=now,
            transitions=transitions,
        )

    # The lease itself

    async def _get(self) -> None:
        try:
            body = await self._request("GET", self._path, None)
        except NotFound:
            self._lease = None
            self._observed = _Record()
            self._has_read = True
            raise
        self._has_read = True
        self._lease, record = self._decoded(body, "GET")
        if record != self._observed:
            self._observed = record
            self._observed_at = self._clock.boottime()

    async def _create(self, record: _Record) -> None:
        lease = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": record.spec(),
        }
        await self._write("POST", LEASES.path(namespace=self._namespace), lease)

    async def _update(self, record: _Record) -> None:
        assert self._lease is not None
        kept = self._lease.get("spec")
        spec = {**kept, **record.spec()} if isinstance(kept, dict) else record.spec()
        await self._write("PUT", self._path, {**self._lease, "spec": spec})

    async def _write(self, method: str, path: str, lease: dict[str, Any]) -> None:
        # Others start to count when they see the write, which is after it was sent.
        sent_at = self._clock.boottime()
        body = await self._request(method, path, lease)
        self._lease, self._observed = self._decoded(body, method)
        self._observed_at = sent_at
        if self._is_ours():
            self._renewed_at = sent_at

    async def _request(self, method: str, path: str, lease: dict[str, Any] | None) -> bytes:
        return await self._client.request(
            method,
            path,
            body=None if lease is None else msgspec.json.encode(lease),
            lane=Lane.LEASE,
            timeout_s=self._renew_deadline_s / 2,
            retry_throttled=False,
        )

    def _decoded(self, body: bytes, method: str) -> tuple[dict[str, Any], _Record]:
        decode: Callable[[bytes], tuple[dict[str, Any], _Record]] = _decode_lease
        return decode_answer(decode, body, request=f"{method} {self._path}", kind="a Lease")

    # Small print

    @property
    def _lock(self) -> str:
        return f"{self._namespace}/{self._name}"

    def _is_ours(self) -> bool:
        return self._observed.holder == self._identity

    def _left_s(self) -> float:
        """Seconds until our leadership ends without another renewal."""
        return self._renewed_at + self._renew_deadline_s - self._clock.boottime()

    def _has_not_run_out(self) -> bool:
        return self._observed_at + self._observed.duration_s > self._clock.boottime()

    def _lost(self) -> LeadershipLost:
        if not self._is_ours():
            holder = self.leader or "no instance"
            return LeadershipLost(f"lost the lease {self._lock}: {holder} holds it now")
        return LeadershipLost(
            f"the lease {self._lock} could not be renewed within {self._renew_deadline_s:g} s"
            + (f": {self._told}" if self._told else "")
        )

    def _report_leader(self) -> None:
        if self._observed.holder != self._reported_leader:
            self._reported_leader = self._observed.holder
            if self._reported_leader:
                log.info(
                    "New leader elected",
                    extra=kv(lock=self._lock, leader=self._reported_leader),
                )

    def _tell(self, error: Exception) -> None:
        if str(error) != self._told:
            self._told = str(error)
            log.warning("Cannot use the leader lease", extra=kv(lock=self._lock, err=self._told))
