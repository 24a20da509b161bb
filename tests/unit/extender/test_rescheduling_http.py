"""/reschedule over HTTP: its token, its query, and its answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from stowplan.extender.kubeapi import Kubeapi
from stowplan.extender.rescheduling import (
    Rescheduler,
)
from stowplan.http.messages import Request
from stowplan.http.parser import Headers, RequestHead
from tests.unit.extender import kit
from tests.unit.extender.rescheduling_kit import (
    BEARER,
    TOKEN,
    Failing,
    Names,
    scene,
)


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return str(path)


async def test_it_is_off_unless_there_is_a_token() -> None:
    async with scene(Names("web-0")) as on, kit.stage() as served:
        on.rescheduler.add_routes(served.service)
        reply = await served.ask("/reschedule", b"", Authorization=BEARER)
        assert reply.status == 403
        assert "set reschedule_token_file" in reply.problem
        assert (await served.ask("/reschedule")).status == 403
        assert await on.going() == []


async def test_post_needs_the_token(token_file: str) -> None:
    async with (
        scene(Names("web-0", "web-1"), token_file=token_file, limit=1) as on,
        kit.stage() as served,
    ):
        on.rescheduler.add_routes(served.service)
        for wrong in ("", "Bearer", "Bearer no", f"Basic {TOKEN}", TOKEN):
            reply = await served.ask("/reschedule", b"", Authorization=wrong)
            assert reply.status == 401
            assert reply.headers["www-authenticate"] == "Bearer"
        assert await on.going() == []
        dry = await served.ask("/reschedule?dryRun=true", b"", Authorization=BEARER)
        assert dry.content == {
            "DryRun": True, "WouldDelete": ["web-0"], "Skipped": {}, "Failed": {}, "Left": 1,
        }  # fmt: skip
        assert await on.going() == []
        reply = await served.ask("/reschedule", b"", Authorization=f"bearer  {TOKEN}")
        assert reply.content == {
            "DryRun": False, "Deleted": ["web-0"], "Skipped": {}, "Failed": {}, "Left": 1,
        }  # fmt: skip
        assert await on.going() == ["web-0"]
        reply = await served.ask("/reschedule", Authorization=BEARER)
        assert (reply.status, reply.headers["allow"]) == (405, "POST")
        assert reply.problem == (
            "GET would delete pods and is off: use POST, add ?dryRun=true, or set "
            "reschedule_by_get: true"
        )
        assert await on.going() == ["web-0"]
        dry = await served.ask("/reschedule?dryRun=true", Authorization=BEARER)
        assert dry.content["WouldDelete"] == ["web-1"], (
            "a GET that changes nothing needs no setting"
        )
        assert (await served.ask("/reschedule?dryRun=true")).status == 401


async def test_refusals_are_counted(token_file: str) -> None:
    async with scene(Names(), token_file=token_file) as on, kit.stage() as served:
        on.rescheduler.add_routes(served.service)
        await served.ask("/reschedule", b"")
        await served.ask("/reschedule")
        await served.ask("/reschedule", Authorization=BEARER)
        await served.ask("/reschedule?limit=x", b"", Authorization=BEARER)
        Path(token_file).unlink()
        await served.ask("/reschedule", b"", Authorization=BEARER)
        page = (await served.ask("/metrics")).body.decode()
        for code, count in ((400, 1), (401, 2), (403, 1), (405, 1)):
            assert f'wca_scheduler_refused_requests{{code="{code}"}} {count}' in page


async def test_a_new_token_holds_at_once(token_file: str) -> None:
    async with scene(Names(), token_file=token_file) as on, kit.stage() as served:
        on.rescheduler.add_routes(served.service)
        Path(token_file).write_text("newer")
        assert (await served.ask("/reschedule", b"", Authorization=BEARER)).status == 401
        assert (await served.ask("/reschedule", b"", Authorization="Bearer newer")).status == 200
        Path(token_file).unlink()
        assert (await served.ask("/reschedule", b"", Authorization="Bearer newer")).status == 403


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("dryRun=perhaps", "dryRun is true or false, not 'perhaps'"),
        ("limit=x", "limit is a number from 0, not 'x'"),
        ("limit=-1", "limit is a number from 0, not '-1'"),
        ("limit=", "limit is a number from 0, not ''"),
        ("limit=²", "limit is a number from 0, not '\ufffd"),
        ("dryrun=true", "there is no parameter 'dryrun'; did you mean dryRun?"),
        ("dry_run=true", "there is no parameter 'dry_run'; did you mean dryRun?"),
        ("pods=3", "there is no parameter 'pods'; there are dryRun and limit"),
    ],
)
@pytest.mark.parametrize("body", [None, b""], ids=["GET", "POST"])
async def test_a_query_that_is_not_understood_deletes_nothing(
    token_file: str, query: str, problem: str, body: bytes | None
) -> None:
    names = Names("web-0")
    async with scene(names, token_file=token_file, by_get=True) as on, kit.stage() as served:
        on.rescheduler.add_routes(served.service)
        path = f"/reschedule?{query}".encode().decode("latin-1")
        reply = await served.ask(path, body, Authorization=BEARER)
        assert reply.status == 400
        assert reply.problem.startswith(f"nothing was deleted: {problem}") or "²" in query
        assert await on.going() == []
        assert names.asked == 0


async def test_get_honours_its_query() -> None:
    async with scene(Names("web-0", "web-1"), by_get=True) as on, kit.stage() as served:
        on.rescheduler.add_routes(served.service)
        reply = await served.ask("/reschedule?dryRun=true")
        assert reply.content == {
            "DryRun": True, "WouldDelete": ["web-0", "web-1"], "Skipped": {}, "Failed": {},
            "Left": 0,
        }  # fmt: skip
        assert (await served.ask("/reschedule?dryRun")).content == reply.content
        reply = await served.ask("/reschedule?limit=0")
        assert (reply.content["Deleted"], reply.content["Left"]) == ([], 2)
        assert await on.going() == []
        reply = await served.ask("/reschedule?limit=1&dryRun=false")
        assert (reply.content["Deleted"], reply.content["Left"]) == (["web-0"], 1)
        assert await on.going() == ["web-0"]


async def test_a_limit_in_the_question(token_file: str) -> None:
    async with scene(Names("web-0", "web-1"), token_file=token_file) as on, kit.stage() as served:
        on.rescheduler.add_routes(served.service)
        reply = await served.ask("/reschedule?limit=1", b"", Authorization=BEARER)
        assert reply.content["Deleted"] == ["web-0"]
        assert reply.content["Left"] == 1


async def test_the_original_s_get_behind_its_flag() -> None:
    async with scene(Names("web-0"), by_get=True) as on, kit.stage() as served:
        on.rescheduler.add_routes(served.service)
        client = await served.connect()
        await client.send(b"HEAD /reschedule HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.reply(is_shown=False)).status == 405
        assert await on.going() == []
        reply = await served.ask("/reschedule")
        assert (reply.status, reply.content) == (200, True)
        assert await on.going() == ["web-0"]
        reply = await served.ask("/reschedule", b"")
        assert (reply.status, reply.problem) == (
            403,
            "POST needs reschedule_token_file; only GET is on",
        )


async def test_get_needs_the_token_if_there_is_one(token_file: str) -> None:
    async with scene(Names("web-0"), by_get=True, token_file=token_file) as on, kit.stage() as at:
        on.rescheduler.add_routes(at.service)
        assert (await at.ask("/reschedule")).status == 401
        assert await on.going() == []
        assert (await at.ask("/reschedule", Authorization=BEARER)).content is True


async def test_a_failing_algorithm_and_a_cluster_that_is_not_there(token_file: str) -> None:
    async with scene(Failing(), token_file=token_file) as on, kit.stage() as served:
        on.rescheduler.add_routes(served.service)
        reply = await served.ask("/reschedule", b"", Authorization=BEARER)
        assert reply.status == 500
        assert reply.problem.startswith("Failing.reschedule: ZeroDivisionError: no idea (")
        assert "rescheduling_kit.py:" in reply.problem
        await on.kubeapi.stop()
    rescheduler = Rescheduler(Names(), Kubeapi("http://127.0.0.1", 1), token_file=token_file)
    headers = Headers(f"\r\nAuthorization: {BEARER}\r\n".encode())
    head = RequestHead("POST", "/reschedule", "", headers, 0, keeps_alive=True)
    answer = await rescheduler._post(Request(head, b""))
    assert answer.status == 503
    assert answer.headers == {"Retry-After": "5"}
