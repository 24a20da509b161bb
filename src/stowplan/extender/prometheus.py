"""`!Prometheus`: the newest results of instant queries, fetched in the background.

`cluster_data` reads results for every request and never waits: a new query is unknown until
Prometheus has answered. Every query is repeated each `max_age` seconds. While Prometheus does not
answer, the last results are used until they are `max_stale` seconds old; after that they are
unknown again. Both cases are counted, and reported on /readyz. Invariant: nothing that Prometheus
sends, or fails to send, raises here.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import aiohttp
import msgspec

from stowplan.api.proxy_environment import proxy_from_environment
from stowplan.clock import Clock, SystemClock, parse_rfc3339
from stowplan.errors import ConfigError
from stowplan.extender import background
from stowplan.extender.background import Troubles, end
from stowplan.extender.client_tls import SSL
from stowplan.extender.metrics import Metric
from stowplan.loader.json_text import json_decoder
from stowplan.redaction import redact_text, redact_url

_PATH: Final = "/api/v1/query"
_MAX_BODY: Final = 16 * 1024 * 1024
_MAX_TOLD: Final = 200
#: Of failing queries, on /readyz.
_MOST_SHOWN: Final = 20
_AT_A_TIME: Final = 4
_MIN_AGE_S: Final = 0.1
_FORGET_S: Final = 600.0
_MAX_TIMEOUT_S: Final = 60.0


class PrometheusDataProviderException(Exception):
    """An answer cannot be used."""


@dataclass(frozen=True, slots=True)
class Row:
    """One element of a result."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Result:
    """What is known of a query; `version` tells whether it is another than before."""

    rows: tuple[Row, ...] = ()
    version: int = 0


#: A query, and whether the fixed evaluation time holds for it.
_Asked: TypeAlias = tuple[str, bool]


@dataclass(slots=True)
class _Kept:
    result: Result = field(default_factory=Result)
    #: When it was fetched; None for never.
    at: float | None = None
    tried_at: float = -math.inf
    asked_at: float = -math.inf
    #: Whether it is fetched even if it was not used for a while.
    is_required: bool = False
    #: Why the last try failed; empty if it did not.
    problem: str = ""


class _Element(msgspec.Struct, frozen=True):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    result_type: str
    result: list[msgspec.Raw]


class _Reply(msgspec.Struct, frozen=True, rename="camel"):
    status: str = ""
    data: _Data | None = None
    error_type: str = ""
    error: str = ""


_decode_reply = json_decoder(_Reply)
_decode_element = json_decoder(_Element)
_UNKNOWN: Final = Result()


class Prometheus:
    """See the module."""

    name = "prometheus"

    def __init__(
        self,
        host: str,
        port: int | str | None = None,
        timeout: float = 1.0,
        ssl: SSL | None = None,
        time: str | float | datetime | None = None,
        max_age: float = 10.0,
        max_stale: float = 300.0,
    ) -> None:
        """The first five are the WCA scheduler's. `time` is the moment that queries are evaluated
        for, instead of now: seconds since 1970 or RFC 3339."""
        if not 0 < timeout <= _MAX_TIMEOUT_S:
            raise ConfigError(f"{timeout:g} is not above 0 and at most 60 seconds", where="timeout")
        if not _MIN_AGE_S <= max_age < math.inf:
            raise ConfigError(f"{max_age:g} is less than {_MIN_AGE_S:g} seconds", where="max_age")
        if not max_age <= max_stale < math.inf:
            raise ConfigError(f"{max_stale:g} is less than max_age", where="max_stale")
        self.url = _url(host, port, uses_tls=ssl is not None)
        self._time = _moment(time)
        self._timeout_s = timeout
        self._max_age_s = max_age
        self._max_stale_s = max_stale
        self._tls = True if ssl is None else ssl.context()
        #: Replaced by tests before the start.
        self.clock: Clock = SystemClock()
        self._kept: dict[_Asked, _Kept] = {}
        self._new = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._troubles = Troubles("queries to Prometheus")
        self._versions = 0
        self._sent = 0
        self._skipped_rows = 0
        self._stale_answers = 0
        self._unknown_answers = 0

    # What is asked

    def require(self, query: str, use_time: bool = True) -> None:
        """Have a query fetched from the start, so that it is known when it is asked for."""
        self._keep(query, use_time).is_required = True

    def ask(self, query: str, use_time: bool = True) -> Result:
        """Return the latest cached result. A query that is no longer used stops being fetched."""
        kept = self._keep(query, use_time)
        kept.asked_at = self.clock.monotonic()
        age = self._age(kept)
        if age > self._max_stale_s:
            self._unknown_answers += 1
            return _UNKNOWN
        if age > self._late_s:
            self._stale_answers += 1
        return kept.result

    def do_query(self, query: str, use_time: bool = True) -> list[dict[str, Any]]:
        """What is known by now, as the WCA scheduler's class has it for providers of a user's own.

        PrometheusDataProviderException if nothing is.
        """
        result = self.ask(query, use_time)
        if result is _UNKNOWN:
            raise PrometheusDataProviderException(f"no result is known of {query!r}")
        return [{"metric": dict(row.labels), "value": [0, repr(row.value)]} for row in result.rows]

    def _keep(self, query: str, use_time: bool) -> _Kept:
        kept = self._kept.get((query, use_time))
        if kept is None:
            kept = self._kept[query, use_time] = _Kept(asked_at=self.clock.monotonic())
            if self._loop is not None:  # an algorithm may ask from a thread of its own
                self._loop.call_soon_threadsafe(self._new.set)
        return kept

    def _age(self, kept: _Kept) -> float:
        return math.inf if kept.at is None else self.clock.monotonic() - kept.at

    @property
    def _late_s(self) -> float:
        """What is sent each `max_age` is a little older than that when the answer comes."""
        return self._max_age_s + self._timeout_s

    # A part that runs

    async def start(self) -> None:
        if self._task is None:
            self._loop = asyncio.get_running_loop()
            self._task = asyncio.create_task(self._refresh_for_ever(), name="queries to Prometheus")

    async def stop(self) -> None:
        await end(self._task)
        self._task = self._loop = None

    def why_not_ready(self) -> str | None:
        return None

    def note(self) -> str | None:
        """How many queries have no fresh result, and, in a line each, which and why."""
        late = [
            (query, kept)
            for (query, _), kept in self._kept.items()
            if self._age(kept) > self._late_s
        ]
        if not late:
            return None
        unknown = sum(self._age(kept) > self._max_stale_s for _, kept in late)
        lines = [
            f"{len(late)} of {len(self._kept)} queries have no fresh result, "
            f"{unknown} of them none that can be used"
        ]
        for query, kept in late[:_MOST_SHOWN]:
            why = kept.problem or "no answer yet"
            lines.append(f"    {query}: {why}"[:_MAX_TOLD])
        if len(late) > _MOST_SHOWN:
            lines.append(f"    and {len(late) - _MOST_SHOWN} more")
        return "\n".join(lines)

    def measures(self) -> Iterable[Metric]:
        ages = [self._age(kept) for kept in self._kept.values() if kept.at is not None]
        yield Metric(background.PROMETHEUS_UP, int(bool(ages) and not self._troubles.last))
        yield Metric(background.PROMETHEUS_AGE, round(max(ages, default=0.0), 3))
        yield Metric(background.PROMETHEUS_QUERIES, self._sent)
        yield Metric(background.PROMETHEUS_ERRORS, self._troubles.count)
        yield Metric(background.PROMETHEUS_ROWS_SKIPPED, self._skipped_rows)
        yield Metric(background.PROMETHEUS_STALE_ANSWERS, self._stale_answers)
        yield Metric(background.PROMETHEUS_UNKNOWN_ANSWERS, self._unknown_answers)

    # Asking Prometheus

    async def _refresh_for_ever(self) -> None:
        connector = aiohttp.TCPConnector(limit=_AT_A_TIME, ssl=self._tls)
        timeout = aiohttp.ClientTimeout(total=self._timeout_s)
        turns = asyncio.Semaphore(_AT_A_TIME)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            while True:
                self._new.clear()
                due = self._due()
                done = await asyncio.gather(*(self._fetch(session, turns, each) for each in due))
                if done and all(done):
                    self._troubles.over()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._pause_s()):
                        await self._new.wait()

    def _due(self) -> list[_Asked]:
        now = self.clock.monotonic()
        for asked, kept in list(self._kept.items()):
            if not kept.is_required and now - kept.asked_at > _FORGET_S:
                del self._kept[asked]
        return [
            asked for asked, kept in self._kept.items() if now - kept.tried_at >= self._max_age_s
        ]

    def _pause_s(self) -> float:
        now = self.clock.monotonic()
        tried = [kept.tried_at for kept in list(self._kept.values())]
        return max(0.0, min(tried, default=now) + self._max_age_s - now)

    async def _fetch(
        self, session: aiohttp.ClientSession, turns: asyncio.Semaphore, asked: _Asked
    ) -> bool:
        """Whether there is a new result."""
        kept = self._kept.get(asked)
        if kept is None:
            return True
        query, use_time = asked
        params = {"query": query}
        if use_time and self._time:
            params["time"] = self._time
        async with turns:
            self._sent += 1
            kept.tried_at = self.clock.monotonic()
            try:
                rows = self._read(await self._get(session, params))
            except TimeoutError:
                return self._failed(query, kept, f"no answer within {self._timeout_s:g} s")
            except Exception as error:  # whatever it is, the next query may be answered
                problem = redact_text(str(error)) or type(error).__name__
                return self._failed(query, kept, problem)
        kept.problem = ""
        if kept.at is None or rows != kept.result.rows:
            self._versions += 1
            kept.result = Result(rows, self._versions)
        kept.at = self.clock.monotonic()
        return True

    def _failed(self, query: str, kept: _Kept, problem: str) -> bool:
        kept.problem = problem
        self._troubles.add(f"{query}: {problem}"[:_MAX_TOLD])
        return False

    async def _get(self, session: aiohttp.ClientSession, params: Mapping[str, str]) -> bytes:
        url = f"{self.url}{_PATH}"
        proxy = proxy_from_environment(url) or None
        async with session.get(url, params=params, proxy=proxy) as response:
            body = bytearray()
            async for chunk in response.content.iter_chunked(64 * 1024):
                body += chunk
                if len(body) > _MAX_BODY:
                    raise PrometheusDataProviderException(
                        f"the answer is larger than {_MAX_BODY // 2**20} MiB"
                    )
            if not response.ok and not body.startswith(b"{"):
                raise PrometheusDataProviderException(f"HTTP status {response.status}")
            return bytes(body)

    def _read(self, body: bytes) -> tuple[Row, ...]:
        try:
            reply = _decode_reply(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise PrometheusDataProviderException("the answer is not Prometheus's") from None
        if reply.status != "success" or reply.data is None:
            problem = f"{reply.error_type}: {reply.error}" if reply.error else "the query failed"
            raise PrometheusDataProviderException(problem)
        if reply.data.result_type != "vector":
            raise PrometheusDataProviderException(
                f"the result is a {reply.data.result_type!r}, not an instant vector"
            )
        rows: list[Row] = []
        for raw in reply.data.result:
            try:
                element = _decode_element(raw)
                value = float(element.value[1])
            except (msgspec.MsgspecError, ValueError, RecursionError):
                self._skipped_rows += 1
                continue
            if math.isfinite(value):
                rows.append(Row(element.metric, value))
            else:
                self._skipped_rows += 1
        return tuple(rows)


def _url(host: str, port: int | str | None, *, uses_tls: bool) -> str:
    """`http://host:port`; the WCA scheduler's hosts have a scheme, its tests have none."""
    address = host.rstrip("/") if "://" in host else f"{'https' if uses_tls else 'http'}://{host}"
    if port not in (None, ""):
        address += f":{port}"
    try:
        parts = urlsplit(address)
        _ = parts.port  # raises where it is no number
    except ValueError:
        # The error would quote the port, which may be a part of a password.
        raise ConfigError(
            f"{redact_url(address)!r}: the address or the port is not valid", where="host, port"
        ) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise ConfigError(f"{redact_url(host)!r} is not an http or https address", where="host")
    if uses_tls and parts.scheme == "http":
        raise ConfigError(
            f"{redact_url(host)!r} is not an https address, but ssl is set", where="host"
        )
    return address


def _moment(time: str | float | datetime | None) -> str:
    """As Prometheus reads it; empty for now. YAML makes moments of what looks like one."""
    if time is None or time == "":
        return ""
    if isinstance(time, datetime):
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).isoformat()
    text = str(time)
    try:
        if math.isfinite(float(text)):
            return text
    except ValueError:
        try:
            parse_rfc3339(text)
            return text
        except ValueError:
            pass
    raise ConfigError(
        f"{text!r} is neither seconds since 1970 nor like 2020-06-01T10:00:00Z", where="time"
    )
