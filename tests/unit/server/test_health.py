"""Health, metrics and configz over a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import aiohttp
import pytest

from stowplan.errors import ConfigError
from stowplan.logs import V2
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.server.health import HealthServer


class Checks:
    """What the checks of the server under test answer."""

    lease: str | None = None
    sync: str | None = None

    def check_lease(self) -> str | None:
        return self.lease

    def check_sync(self) -> str | None:
        if self.sync == "raise":
            raise RuntimeError("broken check")
        return self.sync


class Client:
    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self._session = session

    async def get(self, path: str) -> tuple[int, str]:
        async with self._session.get(self.url + path) as response:
            return response.status, await response.text()

    async def headers(self, path: str) -> Mapping[str, str]:
        async with self._session.get(self.url + path) as response:
            return response.headers


@pytest.fixture
def checks() -> Checks:
    return Checks()


@pytest.fixture
async def client(checks: Checks) -> AsyncIterator[Client]:
    metrics = SchedulerMetrics()
    metrics.attempt_ended("scheduled", "default-scheduler", 0.1)
    server = HealthServer(
        metrics,
        healthz={"leaderElection": checks.check_lease},
        readyz={"leaderElection": checks.check_lease, "sched-handler-sync": checks.check_sync},
        configz=lambda: {"parallelism": 16},
    )
    await server.start("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession() as session:
            yield Client(server.url, session)
    finally:
        await server.stop()


@pytest.mark.parametrize(
    "path", ["/healthz", "/livez", "/readyz", "/readyz/leaderElection", "/livez/ping"]
)
async def test_all_is_well(client: Client, path: str) -> None:
    assert await client.get(path) == (200, "ok")


async def test_results_of_checks_are_counted(client: Client, checks: Checks) -> None:
    for checks.sync in ("no", None, None):
        await client.get("/readyz")
    await client.get("/livez/ping")
    status, text = await client.get("/metrics/slis")
    assert status == 200
    assert [line for line in text.splitlines() if line.startswith("kubernetes_healthcheck")] == [
        'kubernetes_healthcheck{name="leaderElection",type="readyz"} 1',
        'kubernetes_healthcheck{name="ping",type="livez"} 1',
        'kubernetes_healthcheck{name="sched-handler-sync",type="readyz"} 1',
        'kubernetes_healthchecks_total{name="leaderElection",status="success",type="readyz"} 3',
        'kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1',
        'kubernetes_healthchecks_total{name="sched-handler-sync",status="error",type="readyz"} 1',
        'kubernetes_healthchecks_total{name="sched-handler-sync",status="success",type="readyz"} 2',
    ]


async def test_verbose_lists_the_checks(client: Client) -> None:
    assert await client.get("/readyz?verbose") == (
        200,
        "[+]leaderElection ok\n[+]sched-handler-sync ok\nreadyz check passed\n",
    )


async def test_a_failed_check_is_logged_as_upstream_does(
    client: Client, checks: Checks, caplog: pytest.LogCaptureFixture
) -> None:
    checks.sync = "pods not listed yet"
    with caplog.at_level(V2, "stowplan.server.health"):
        await client.get("/readyz")
    assert caplog.messages == [
        "sched-handler-sync check failed: readyz\n[-]sched-handler-sync failed: pods not listed yet"
    ]


async def test_a_failed_check_is_told_with_its_reason(client: Client, checks: Checks) -> None:
    checks.sync = "pods not listed yet"
    assert await client.get("/readyz") == (
        500,
        "[+]leaderElection ok\n[-]sched-handler-sync failed: pods not listed yet\n"
        "readyz check failed\n",
    )
    assert await client.get("/readyz/sched-handler-sync") == (
        500,
        "internal server error: pods not listed yet\n",
    )
    assert await client.get("/readyz/leaderElection") == (200, "ok")
    assert await client.get("/healthz") == (200, "ok")


async def test_checks_can_be_excluded(client: Client, checks: Checks) -> None:
    checks.sync = checks.lease = "no"
    status, text = await client.get("/readyz?exclude=sched-handler-sync")
    assert status == 500
    assert "[+]sched-handler-sync excluded: ok\n" in text
    assert await client.get("/readyz?exclude=sched-handler-sync&exclude=leaderElection") == (
        200,
        "ok",
    )


async def test_an_unknown_exclusion_is_told(client: Client) -> None:
    status, text = await client.get("/healthz?verbose&exclude=zebra")
    assert status == 200
    assert 'warn: some health checks cannot be excluded: no matches for "zebra"\n' in text


async def test_livez_does_not_ask_the_other_checks(client: Client, checks: Checks) -> None:
    checks.lease = "lost"
    assert (await client.get("/healthz"))[0] == 500
    assert await client.get("/livez") == (200, "ok")


async def test_a_check_that_raises_has_failed(client: Client, checks: Checks) -> None:
    checks.sync = "raise"
    status, text = await client.get("/readyz")
    assert status == 500
    assert "[-]sched-handler-sync failed: RuntimeError: broken check\n" in text
    assert (await client.get("/healthz"))[0] == 200


async def test_metrics(client: Client) -> None:
    status, text = await client.get("/metrics")
    assert status == 200
    assert (
        'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1.0'
        in text.splitlines()
    )
    headers = await client.headers("/metrics")
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


async def test_configz_and_the_index(client: Client) -> None:
    assert await client.get("/configz") == (200, '{"componentconfig": {"parallelism": 16}}')
    status, text = await client.get("/")
    assert status == 200
    assert '"/readyz/sched-handler-sync"' in text


async def test_unknown_paths(client: Client) -> None:
    assert (await client.get("/zebra"))[0] == 404
    assert (await client.get("/readyz/zebra"))[0] == 404


async def test_a_taken_port_is_one_clear_line() -> None:
    first = HealthServer(SchedulerMetrics())
    await first.start("127.0.0.1", 0)
    second = HealthServer(SchedulerMetrics())
    try:
        with pytest.raises(ConfigError) as caught:
            await second.start("127.0.0.1", first.port, flag="--http-port")
    finally:
        await first.stop()
    assert str(caught.value) == (
        f"--http-port: cannot listen on 127.0.0.1:{first.port}: Address already in use; "
        "choose another address or port"
    )


async def test_stop_frees_the_port_and_may_be_called_twice() -> None:
    first = HealthServer(SchedulerMetrics())
    await first.start("127.0.0.1", 0)
    port = first.port
    await first.stop()
    await first.stop()
    second = HealthServer(SchedulerMetrics())
    await second.start("127.0.0.1", port)
    assert second.url == f"http://127.0.0.1:{port}"
    await second.stop()


async def test_without_checks_and_configz() -> None:
    server = HealthServer(SchedulerMetrics())
    await server.start("127.0.0.1", 0)
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{server.url}/configz") as reply,
        ):
            assert reply.status == 404
            async with session.get(f"{server.url}/readyz?verbose") as ready:
                assert await ready.text() == "[+]ping ok\nreadyz check passed\n"
    finally:
        await server.stop()
