"""Who asks an HTTPS port, and whether they may: what the API server is asked, and how often.

The API server's part is played by a transport that counts; tests/e2e/test_secure_serving.py has the
real one.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

import pytest

from stowplan.errors import ApiUnavailable, NotFound
from stowplan.server import https_site, review_cache
from tests.unit.server.https_kit import ANY, Api, get, served, until


async def test_answers_are_kept() -> None:
    api = Api()
    async with served(api=api) as port:
        for _ in range(2):
            assert (await get(port, "/metrics", "good-1"))[0] == 200
            assert (await get(port, "/configz", "good-1"))[0] == 403
            assert (await get(port, "/metrics", "bad"))[0] == 401
            assert (await get(port, "/metrics"))[0] == 403
    assert sorted(api.asked) == ["subjectaccessreviews"] * 3 + ["tokenreviews"] * 2


async def test_no_answer_is_kept_with_a_ttl_of_zero() -> None:
    api = Api()
    options = replace(
        ANY,
        authentication_token_cache_ttl_s=0.0,
        authorization_authorized_cache_ttl_s=0.0,
    )
    async with served(options, api) as port:
        for _ in range(2):
            assert (await get(port, "/metrics", "good"))[0] == 200
    assert len(api.asked) == 4


async def test_one_question_for_many_clients() -> None:
    api = Api()
    api.may_answer.clear()
    async with served(api=api) as port:
        asking = [asyncio.create_task(get(port, "/metrics", "good")) for _ in range(10)]
        await until(lambda: bool(api.asked))
        api.may_answer.set()
        assert {status for status, _ in await asyncio.gather(*asking)} == {200}
    assert api.asked == ["tokenreviews", "subjectaccessreviews"]


async def test_probes_are_answered_while_the_api_server_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many clients with tokens wait: more than the limit are refused at once."""
    monkeypatch.setattr(review_cache, "MAX_ASKING", 3)
    monkeypatch.setattr(https_site, "MAX_WAITING", 5)
    api = Api()
    api.may_answer.clear()
    async with served(api=api) as port:
        asking = [asyncio.create_task(get(port, "/metrics", f"good-{n}")) for n in range(8)]
        await until(lambda: sum(each.done() for each in asking) >= 5)
        assert await get(port, "/healthz") == (200, "ok")
        assert len(api.asked) == 3
        api.may_answer.set()
        found = sorted(status for status, _ in await asyncio.gather(*asking))
    assert found == [200] * 3 + [429] * 5


async def test_an_api_server_that_fails_allows_nothing() -> None:
    api = Api()
    api.problem = ApiUnavailable("POST reviews: connection refused")
    async with served(api=api) as port:
        assert (await get(port, "/metrics", "good"))[0] == 401
        assert await get(port, "/metrics") == (
            500,
            'Internal Server Error: "/metrics": POST reviews: connection refused\n',
        )
        api.problem = NotFound("the server could not find the requested resource")
        for path, opened in (("/v1/explain/default/big", "/v1/*"), ("/metrics", "/metrics")):
            status, text = await get(port, path)
            assert status == 500
            assert "this API server has no SubjectAccessReview" in text
            assert f"paths=/healthz,/readyz,/livez,{opened} (for all who" in text
        api.problem = None  # errors are not kept
        assert (await get(port, "/metrics", "good"))[0] == 200


async def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_cache, "MAX_ENTRIES", 10)
    monkeypatch.setattr(review_cache, "MAX_BYTES", 1000)
    cache: review_cache.ReviewCache[int] = review_cache.ReviewCache()

    async def ask(size: int) -> review_cache.Answer[int]:
        return review_cache.Answer(size, 60.0, size)

    for _ in range(100):
        assert await cache.get(os.urandom(32), lambda: ask(1)) == 1
    assert (len(cache), cache.bytes) == (10, 10)
    for _ in range(100):
        await cache.get(os.urandom(32), lambda: ask(300))
    assert (len(cache), cache.bytes) == (3, 900)
    await cache.get(b"huge", lambda: ask(1001))
    assert cache.bytes == 900


async def test_a_failed_lookup_ends_the_start_if_it_must_not_fail() -> None:
    api = Api()
    api.problem = ApiUnavailable("GET configmap: connection refused")
    options = replace(
        ANY, authentication_skip_lookup=False, authentication_tolerate_lookup_failure=False
    )
    with pytest.raises(ApiUnavailable, match="connection refused"):
        async with served(options, api):
            pass


async def test_a_review_without_an_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """401 for a token, 500 for rights; both leave nothing behind."""
    monkeypatch.setattr(review_cache, "TIMEOUT_S", 0.05)
    api = Api()
    api.may_answer.clear()
    async with served(api=api) as port:
        assert (await get(port, "/metrics", "good"))[0] == 401
        status, text = await get(port, "/metrics")
        assert (status, text.partition(": POST")[0]) == (500, 'Internal Server Error: "/metrics"')
        assert "no answer within 0.05 s" in text
        api.may_answer.set()
        assert (await get(port, "/metrics", "good"))[0] == 200
