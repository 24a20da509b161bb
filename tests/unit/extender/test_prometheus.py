"""Queries to a Prometheus that is there, slow, away, or talks nonsense."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.clock import VirtualClock
from stowplan.errors import ConfigError
from stowplan.extender import background
from stowplan.extender.background import Runs, data_lines
from stowplan.extender.client_tls import SSL
from stowplan.extender.prometheus import Prometheus, PrometheusDataProviderException, Row
from tests.unit.api.api_kit import until
from tests.unit.api.tls_kit import Authority
from tests.unit.extender.fake_prometheus import FakePrometheus, by, serving, started

APPS = by("app", web=2, db=3.5)
QUERY = 'app_req{dim="cpu"}'


def measured(prometheus: Prometheus, name: str) -> float:
    (value,) = [m.value for m in prometheus.measures() if m.name == name]
    return value


def client(fake: FakePrometheus, **options: Any) -> Prometheus:
    return Prometheus("127.0.0.1", fake.port, **{"max_age": 0.1, "timeout": 5.0, **options})


async def test_a_result_is_known_once_prometheus_has_answered() -> None:
    async with serving(FakePrometheus({QUERY: APPS})) as fake:
        prometheus = client(fake)
        assert isinstance(prometheus, Runs)
        assert prometheus.ask(QUERY).rows == ()
        async with started(prometheus):
            await until(lambda: bool(prometheus.ask(QUERY).rows))
            assert prometheus.ask(QUERY).rows == (Row({"app": "web"}, 2.0), Row({"app": "db"}, 3.5))
            assert prometheus.note() is None
            assert prometheus.why_not_ready() is None
            assert measured(prometheus, background.PROMETHEUS_UP) == 1
            assert measured(prometheus, background.PROMETHEUS_ERRORS) == 0
            assert measured(prometheus, background.PROMETHEUS_UNKNOWN_ANSWERS) >= 1


async def test_queries_arrive_as_they_were_written() -> None:
    queries = [
        QUERY,
        "sum(platform_mem_mode_size_bytes) by (node) != 0",
        'rate(x{a="b&c=d+e%20#"}[5m]) / 1e+3',
        "ü",
    ]
    async with serving(FakePrometheus()) as fake:
        prometheus = client(fake)
        for query in queries:
            prometheus.require(query)
        async with started(prometheus):
            await until(lambda: len(fake.seen) >= len(queries))
        assert sorted(each["query"] for each in fake.seen[: len(queries)]) == sorted(queries)
        assert all(set(each) == {"query"} for each in fake.seen)


@pytest.mark.parametrize("time", ["2020-06-01T10:00:00Z", "1591005600.5", 1591005600])
async def test_queries_can_be_about_a_fixed_moment(time: str | float) -> None:
    async with serving(FakePrometheus()) as fake:
        prometheus = client(fake, time=time)
        prometheus.require("then")
        prometheus.require("now", use_time=False)
        async with started(prometheus):
            await until(lambda: len(fake.seen) >= 2)
        then = next(each for each in fake.seen if each["query"] == "then")
        now = next(each for each in fake.seen if each["query"] == "now")
        assert then["time"] == str(time)
        assert "time" not in now


async def test_a_new_version_is_a_new_result() -> None:
    async with serving(FakePrometheus({QUERY: APPS})) as fake, started(client(fake)) as prometheus:
        await until(lambda: bool(prometheus.ask(QUERY).rows))
        version = prometheus.ask(QUERY).version
        asked = len(fake.seen)
        await until(lambda: len(fake.seen) > asked + 1)
        assert prometheus.ask(QUERY).version == version
        fake.results[QUERY] = by("app", web=4)
        await until(lambda: prometheus.ask(QUERY).version > version)
        assert prometheus.ask(QUERY).rows == (Row({"app": "web"}, 4.0),)


async def test_asking_never_waits_for_a_slow_prometheus() -> None:
    async with serving(FakePrometheus({QUERY: APPS})) as fake:
        fake.open.clear()
        prometheus = client(fake, timeout=0.2)
        async with started(prometheus):
            prometheus.ask(QUERY)
            await until(lambda: measured(prometheus, background.PROMETHEUS_ERRORS) >= 1)
            assert prometheus.ask(QUERY).rows == ()
            assert "no answer within 0.2 s" in str(prometheus.note())
            assert measured(prometheus, background.PROMETHEUS_UP) == 0
            fake.open.set()
            await until(lambda: bool(prometheus.ask(QUERY).rows))
            await until(lambda: prometheus.note() is None)


async def test_it_starts_while_prometheus_is_away_and_finds_it_when_it_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(FakePrometheus()) as gone:
        port = gone.port
    prometheus = client(gone)
    prometheus.require(QUERY)
    with caplog.at_level(logging.INFO, "stowplan.extender"):
        async with started(prometheus):
            await until(lambda: measured(prometheus, background.PROMETHEUS_ERRORS) >= 3)
            note = str(prometheus.note())
            assert note.startswith("1 of 1 queries have no fresh result, 1 of them none that can")
            told = [r for r in caplog.records if r.message == "Failing"]
            assert len(told) == 1, "once a minute, not once a failure"
            async with serving(FakePrometheus({QUERY: APPS}), port=port):
                await until(lambda: bool(prometheus.ask(QUERY).rows))
                await until(lambda: "Works again" in caplog.messages)


async def test_failing_queries_are_named_with_their_reasons() -> None:
    async with serving(FakePrometheus({QUERY: APPS})) as fake:
        fake.errors["bad("] = "parse error at 4"
        prometheus = client(fake)
        for query in (QUERY, "bad("):
            prometheus.require(query)
        async with started(prometheus):
            await until(lambda: bool(prometheus.ask(QUERY).rows))
            await until(lambda: measured(prometheus, background.PROMETHEUS_ERRORS) >= 1)
            first, *lines = str(prometheus.note()).splitlines()
    assert first == ("1 of 2 queries have no fresh result, 1 of them none that can be used")
    assert lines == ["    bad(: bad_data: parse error at 4"]


async def test_of_many_failing_queries_some_are_named() -> None:
    async with serving(FakePrometheus()) as fake:
        prometheus = client(fake)
    for number in range(50):
        prometheus.require(f"q{number}")
    lines = str(prometheus.note()).splitlines()
    assert lines[1] == "    q0: no answer yet"
    assert (len(lines), lines[-1]) == (22, "    and 30 more")


async def test_old_results_serve_for_a_while_and_are_then_unknown() -> None:
    clock = VirtualClock()
    async with serving(FakePrometheus({QUERY: APPS})) as fake:
        prometheus = client(fake, max_age=10.0, max_stale=60.0, timeout=1.0)
        prometheus.clock = clock
        prometheus.require(QUERY)
        async with started(prometheus):
            await until(lambda: bool(prometheus.ask(QUERY).rows))
    clock.advance(11.0)
    assert prometheus.ask(QUERY).rows
    assert measured(prometheus, background.PROMETHEUS_STALE_ANSWERS) == 0
    assert prometheus.note() is None
    clock.advance(1.0)
    assert prometheus.ask(QUERY).rows
    assert measured(prometheus, background.PROMETHEUS_STALE_ANSWERS) == 1
    assert "1 of 1 queries have no fresh result, 0 of them none" in str(prometheus.note())
    clock.advance(48.0)
    assert prometheus.ask(QUERY).rows, "60 s old"
    unknown = measured(prometheus, background.PROMETHEUS_UNKNOWN_ANSWERS)
    clock.advance(0.5)
    assert prometheus.ask(QUERY).rows == ()
    assert prometheus.ask(QUERY).version == 0
    assert measured(prometheus, background.PROMETHEUS_UNKNOWN_ANSWERS) == unknown + 2
    assert measured(prometheus, background.PROMETHEUS_AGE) == 60.5


def _reply(result: Any, kind: str = "vector") -> bytes:
    return json.dumps(
        {"status": "success", "data": {"resultType": kind, "result": result}}
    ).encode()


GARBAGE = {
    "nothing": (b"", 200, "not Prometheus's"),
    "text": (b"<html>hello</html>", 200, "not Prometheus's"),
    "half": (b'{"status":"success","data":{"resultType":"vec', 200, "not Prometheus's"),
    "a list": (b"[1]", 200, "not Prometheus's"),
    "a number": (b"7", 200, "not Prometheus's"),
    "bytes": (b"\xff\xfe\x00", 200, "not Prometheus's"),
    "nested": (b"[" * 100_000, 200, "not Prometheus's"),
    "no data": (b'{"status":"success"}', 200, "the query failed"),
    "null data": (b'{"status":"success","data":null}', 200, "the query failed"),
    "odd data": (b'{"status":"success","data":[]}', 200, "not Prometheus's"),
    "odd result": (_reply({}), 200, "not Prometheus's"),
    "a scalar": (_reply([1.5, "2"], "scalar"), 200, "a 'scalar', not an instant vector"),
    "a matrix": (_reply([], "matrix"), 200, "a 'matrix', not an instant vector"),
    "an error": (
        b'{"status":"error","errorType":"bad_data","error":"parse error"}',
        400,
        "bad_data: parse error",
    ),
    "a proxy's error": (b"Bad Gateway", 502, "HTTP status 502"),
}


@pytest.mark.parametrize("name", GARBAGE)
async def test_garbage_is_counted_and_the_last_result_stays(name: str) -> None:
    body, status, problem = GARBAGE[name]
    async with serving(FakePrometheus({QUERY: APPS})) as fake, started(client(fake)) as prometheus:
        await until(lambda: bool(prometheus.ask(QUERY).rows))
        fake.raw, fake.status = body, status
        await until(lambda: measured(prometheus, background.PROMETHEUS_ERRORS) >= 1)
        assert len(prometheus.ask(QUERY).rows) == 2
        await until(lambda: problem in str(prometheus._troubles.last))


async def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stowplan.extender.prometheus._MAX_BODY", 2**20)
    async with (
        serving(FakePrometheus(raw=b" " * (2**20 + 1))) as fake,
        started(client(fake)) as prometheus,
    ):
        prometheus.ask(QUERY)
        await until(lambda: "larger than 1 MiB" in prometheus._troubles.last)


async def test_rows_that_are_no_numbers_are_left_out() -> None:
    rows = [
        {"metric": {"app": "good"}, "value": [1, "1e1"]},
        {"metric": {"app": "nan"}, "value": [1, "NaN"]},
        {"metric": {"app": "inf"}, "value": [1, "+Inf"]},
        {"metric": {"app": "text"}, "value": [1, "much"]},
        {"metric": {"app": "number"}, "value": [1, 5]},
        {"metric": {"app": "short"}, "value": [1]},
        {"metric": {"app": 7}, "value": [1, "1"]},
        {"metric": {"app": "histogram"}, "histogram": [1, {}]},
        "row",
        None,
    ]
    async with (
        serving(FakePrometheus(raw=_reply(rows))) as fake,
        started(client(fake)) as prometheus,
    ):
        await until(lambda: bool(prometheus.ask(QUERY).rows))
        assert prometheus.ask(QUERY).rows == (Row({"app": "good"}, 10.0),)
        rounds = measured(prometheus, background.PROMETHEUS_QUERIES)
        assert measured(prometheus, background.PROMETHEUS_ROWS_SKIPPED) == 9 * rounds


async def test_what_nobody_asks_for_is_forgotten() -> None:
    clock = VirtualClock()
    prometheus = Prometheus("prometheus")
    prometheus.clock = clock
    prometheus.require("for good")
    for number in range(100):
        prometheus.ask(f"of pod {number}")
    assert len(prometheus._due()) == 101
    clock.advance(601.0)
    prometheus.ask("of pod 7")
    assert prometheus._due() == [("for good", True), ("of pod 7", True)]


async def test_an_algorithm_in_a_thread_may_ask() -> None:
    async with serving(FakePrometheus({QUERY: APPS})) as fake:
        prometheus = client(fake, max_age=300.0, max_stale=300.0)
        async with started(prometheus):
            await until(lambda: prometheus._loop is not None)
            await asyncio.sleep(0.05)  # it has nothing to do, and waits for its next round
            await asyncio.to_thread(prometheus.ask, QUERY)
            await until(lambda: bool(prometheus.ask(QUERY).rows))


async def test_the_original_s_method_has_the_original_s_rows() -> None:
    async with (
        serving(FakePrometheus({QUERY: by("app", web=2)})) as fake,
        started(client(fake)) as prometheus,
    ):
        with pytest.raises(PrometheusDataProviderException, match="no result is known"):
            prometheus.do_query(QUERY)
        await until(lambda: bool(prometheus.ask(QUERY).rows))
        (row,) = prometheus.do_query(QUERY)
        assert row["metric"] == {"app": "web"}
        assert float(row["value"][1]) == 2.0


async def test_stopping_closes_all_connections_also_when_never_started() -> None:
    prometheus = Prometheus("prometheus", 9090)
    await prometheus.stop()
    async with serving(FakePrometheus()) as fake:
        prometheus = client(fake)
        fake.open.clear()
        prometheus.require(QUERY)
        await prometheus.start()
        await prometheus.start()
        await until(lambda: bool(fake.seen))
        await prometheus.stop()
        await prometheus.stop()
        asked = len(fake.seen)
        fake.open.set()
        await asyncio.sleep(0.3)
        assert len(fake.seen) == asked


@pytest.mark.parametrize(
    ("host", "port", "url"),
    [
        ("http://prometheus.svc", 9090, "http://prometheus.svc:9090"),
        ("prometheus", 9090, "http://prometheus:9090"),
        ("https://prometheus/", None, "https://prometheus"),
        ("http://prometheus/prefix", None, "http://prometheus/prefix"),
        ("10.0.0.1", "80", "http://10.0.0.1:80"),
    ],
)
def test_addresses(host: str, port: int | str | None, url: str) -> None:
    assert Prometheus(host, port).url == url


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"host": ""}, "host: '' is not an http or https address"),
    ({"host": "ftp://x"}, "host: 'ftp://x' is not an http"),
    ({"host": "x", "port": "many"}, "host, port: 'http://x:many'"),
    ({"host": "x", "port": 70000}, "host, port: "),
    ({"host": "x", "timeout": 0}, "timeout: 0 is not above 0"),
    ({"host": "x", "timeout": 61}, "timeout: 61 is not above 0 and at most 60"),
    ({"host": "x", "max_age": 0}, "max_age: 0 is less than 0.1"),
    ({"host": "x", "max_age": float("inf")}, "max_age: inf"),
    ({"host": "x", "max_age": 10, "max_stale": 5}, "max_stale: 5 is less than max_age"),
    ({"host": "x", "time": "yesterday"}, "time: 'yesterday' is neither"),
    ({"host": "x", "time": "nan"}, "time: 'nan' is neither"),
    ({"host": "http://x", "ssl": SSL(False)}, "host: 'http://x' is not an https address"),
]


@pytest.mark.parametrize(("arguments", "problem"), MISTAKES)
def test_mistakes_name_the_field(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Prometheus(**arguments)
    assert str(raised.value).startswith(problem)


async def test_https_with_certificates_of_both_sides(tmp_path: Path) -> None:
    authority = Authority()
    ca, mine = tmp_path / "ca.pem", tmp_path / "mine.pem"
    ca.write_bytes(authority.cert)
    pair = authority.client("extender")
    mine.write_bytes(pair.cert + pair.key)
    server = authority.server_context(tmp_path, clients=authority)
    async with serving(FakePrometheus({QUERY: APPS}), tls=server) as fake:
        for ssl_options in (
            SSL(server_verify=str(ca), client_cert_path=str(mine)),
            SSL(server_verify=False, client_cert_path=str(mine)),
        ):
            async with started(client(fake, ssl=ssl_options)) as prometheus:
                await until(lambda: bool(prometheus.ask(QUERY).rows))
        answered = len(fake.seen)
        for ssl_options in (SSL(client_cert_path=str(mine)), SSL(server_verify=str(ca))):
            async with started(client(fake, ssl=ssl_options)) as prometheus:
                prometheus.require(QUERY)
                await until(lambda: bool(prometheus._troubles.last))
                assert prometheus.ask(QUERY).rows == ()
        assert len(fake.seen) == answered


def test_yaml_may_have_made_a_moment_of_the_time() -> None:
    moments = yaml.safe_load("[2020-06-01T10:00:00Z, 2020-06-01 10:00:00]")
    assert [Prometheus("x", time=each)._time for each in moments] == [
        "2020-06-01T10:00:00+00:00"
    ] * 2


def test_mistakes_of_certificates(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    with pytest.raises(ConfigError, match="client_key_path: Provided client key without"):
        SSL(client_key_path="key.pem")
    with pytest.raises(ConfigError, match=r"server_verify: .*none\.pem cannot be used: No such"):
        SSL(server_verify=str(tmp_path / "none.pem"))
    with pytest.raises(ConfigError, match=r"client_cert_path: .*empty\.pem is not a certificate"):
        SSL(client_cert_path=str(empty))


def test_metrics_of_all_parts_are_one_page() -> None:
    lines = list(data_lines([Prometheus("a"), Prometheus("b")]))
    assert lines.count("# TYPE wca_scheduler_prometheus_up gauge") == 1
    assert "wca_scheduler_prometheus_errors 0.0" in lines
