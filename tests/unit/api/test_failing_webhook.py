"""Binds where an admission webhook fails for every third: the server answers 500 to those.

That looks like trouble of the server, so fewer are sent at a time; but it is not the server's, and
goes on for as long as the webhook does. It must not end in one bind at a time, nor in none.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from stowplan.api.client import ApiClient
from stowplan.errors import ApiError
from tests.unit.api.api_kit import STATUS_OK, reply, scripted_server, status_body

MOST = 16
#: What the limit never goes below.
LEAST = 4


class Webhooked:
    """Takes binds, of which every third fails while the webhook does."""

    def __init__(self) -> None:
        self.is_failing = True
        self.count = 0
        self.running = 0
        #: Of every bind, how many were under way when it came, itself included.
        self.at_a_time: list[int] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.count += 1
        fails = self.is_failing and self.count % 3 == 0
        self.running += 1
        self.at_a_time.append(self.running)
        # Long enough for all that may come to have come, however busy the machine is.
        await asyncio.sleep(0.03)
        self.running -= 1
        if fails:
            message = 'Internal error occurred: failed calling webhook "x": connection refused'
            return reply(status_body(500, "InternalError", message), status=500)
        return reply(STATUS_OK, status=201)


async def bind_all(client: ApiClient, number: int) -> int:
    """How many of so many binds, all wanted at once, are refused."""
    names = [f"p{place}" for place in range(number)]
    ends = await asyncio.gather(
        *(client.bind("ns", name, name, "n") for name in names), return_exceptions=True
    )
    problems = [end for end in ends if end is not None]
    assert all(isinstance(problem, ApiError) and problem.status == 500 for problem in problems)
    return len(problems)


async def test_binds_go_on_several_at_a_time_and_all_at_once_when_it_is_over() -> None:
    webhooked = Webhooked()
    async with (
        scripted_server(webhooked.answer) as server,
        ApiClient(server.config, bind_concurrency=MOST) as client,
        asyncio.timeout(60),
    ):
        assert await bind_all(client, 240) == 80
        # Long after it has given in, and still.
        for stretch in (webhooked.at_a_time[120:180], webhooked.at_a_time[180:]):
            assert LEAST <= max(stretch) < MOST

        webhooked.is_failing = False
        assert await bind_all(client, 300) == 0
        assert max(webhooked.at_a_time[-100:]) == MOST
