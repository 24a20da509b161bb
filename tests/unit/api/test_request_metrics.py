"""client-go's `rest_client_*`, counted from requests to a real socket."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from aiohttp import web

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.resources import PODS
from stowplan.errors import ApiUnavailable, NotFound
from stowplan.scheduler.metric_families import Family, Histogram
from stowplan.scheduler.request_metrics import RequestMetrics
from tests.unit.api.api_kit import STATUS_OK, reply, scripted_server, status_body


def observed(family: Family[Histogram]) -> dict[tuple[str, ...], tuple[int, float]]:
    return {labels: (each.count, each.sum) for labels, each in family.children.items()}


async def test_requests_are_counted_by_code_with_their_sizes_and_retries() -> None:
    codes = iter([429, 200, 404])

    async def handler(request: web.Request) -> web.Response:
        code = next(codes)
        body = STATUS_OK if code == 200 else status_body(code)
        return reply(body, status=code, headers={"Retry-After": "0"})

    metrics = RequestMetrics()
    async with (
        scripted_server(handler) as server,
        ApiClient(server.config, observer=metrics) as client,
    ):
        host = urlsplit(server.config.server).netloc
        answer = await client.request("POST", "/x", body=b"123")
        with pytest.raises(NotFound):
            await client.get(PODS, "gone", namespace="default")

    counts = {labels: each.value for labels, each in metrics.requests.children.items()}
    assert counts == {("429", "POST", host): 1, ("200", "POST", host): 1, ("404", "GET", host): 1}
    retries = {labels: each.value for labels, each in metrics.retries.children.items()}
    assert retries == {("429", "POST", host): 1}
    assert observed(metrics.request_size) == {("POST", host): (1, 3), ("GET", host): (1, 0)}
    assert observed(metrics.response_size) == {("POST", host): (1, len(answer))}
    assert {labels: count for labels, (count, _) in observed(metrics.duration).items()} == {
        ("POST", host): 1,
        ("GET", host): 1,
    }
    assert set(metrics.rate_limiter_duration.children) == {("POST", host), ("GET", host)}


async def test_a_watch_counts_as_a_request_without_duration() -> None:
    async def handler(request: web.Request) -> web.Response:
        return reply({})

    metrics = RequestMetrics()
    async with (
        scripted_server(handler) as server,
        ApiClient(server.config, observer=metrics) as client,
        client.open_watch(PODS, resource_version="1"),
    ):
        host = urlsplit(server.config.server).netloc
    assert metrics.requests.at("200", "GET", host).value == 1
    assert not metrics.duration.children


async def test_a_request_without_an_answer_has_the_code_of_an_error() -> None:
    metrics = RequestMetrics()
    config = ClusterConfig(server="http://127.0.0.1:1", source="test")
    async with ApiClient(config, observer=metrics) as client:
        with pytest.raises(ApiUnavailable):
            await client.request("GET", "/x")
    assert metrics.requests.at("<error>", "GET", "127.0.0.1:1").value == 1
    assert not metrics.response_size.children
