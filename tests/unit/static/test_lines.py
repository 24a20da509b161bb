"""The log in the original's form: bytes, names and levels."""

from __future__ import annotations

import io
import logging
import re

from stowplan.logs import V2, V4, get_logger, kv
from stowplan.static.lines import configure, log


def written(verbosity: int) -> list[str]:
    """Everything that somebody might say, as far as it is written."""
    stream = io.StringIO()
    configure(verbosity, stream)
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        log.log(level, "Pod %s scheduled on node %s", "web-0", "n1")
    inside = get_logger("stowplan.scheduler.process")
    for level in (V4, V2, logging.INFO, logging.WARNING, logging.ERROR):
        inside.log(level, "Said", extra=kv(pod="default/web-0", number=3))
    get_logger("stowplan.scheduler.binding").warning("Failed to bind pod")
    get_logger("stowplan.api.reachability").warning("API server cannot be reached")
    logging.getLogger("aiohttp").warning("foreign")
    logging.getLogger("aiohttp").info("foreign")
    return [line.partition(" - ")[2] for line in stream.getvalue().splitlines()]


PLACED = "Pod web-0 scheduled on node n1"
SAID = 'Said pod="default/web-0" number=3'


def test_a_line_is_the_originals_to_the_byte() -> None:
    stream = io.StringIO()
    configure(2, stream)
    log.info("Pod %s scheduled on node %s", "web-0", "kind-control-plane")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - __main__ - INFO - "
        r"Pod web-0 scheduled on node kind-control-plane\n",
        stream.getvalue(),
    )
    plain = logging.Formatter("%(asctime)s - %(name)s - %(levelname)s - %(message)s")
    record = log.makeRecord("__main__", logging.INFO, "f", 1, "Pod %s", ("web-0",), None)
    handler = logging.getLogger().handlers[-1]
    assert handler.format(record) == plain.format(record)


def test_errors_only_unless_asked() -> None:
    """And once that the API server is away, lest silence be a riddle."""
    assert written(0) == [
        f"__main__ - ERROR - {PLACED}",
        f"stowplan.scheduler.process - ERROR - {SAID}",
        "stowplan.api.reachability - WARNING - API server cannot be reached",
    ]


def test_v_adds_warnings() -> None:
    assert written(1) == [
        f"__main__ - WARNING - {PLACED}",
        f"__main__ - ERROR - {PLACED}",
        f"stowplan.scheduler.process - WARNING - {SAID}",
        f"stowplan.scheduler.process - ERROR - {SAID}",
        "stowplan.api.reachability - WARNING - API server cannot be reached",
        "aiohttp - WARNING - foreign",
    ]


def test_vv_adds_the_lines_that_people_know_and_no_others() -> None:
    assert set(written(2)) - set(written(1)) == {f"__main__ - INFO - {PLACED}"}


def test_vvv_and_more() -> None:
    assert set(written(3)) - set(written(2)) == {
        f"__main__ - DEBUG - {PLACED}",
        f"stowplan.scheduler.process - INFO - {SAID}",
        "stowplan.scheduler.binding - WARNING - Failed to bind pod",
    }
    assert set(written(4)) - set(written(3)) == {f"stowplan.scheduler.process - DEBUG - {SAID}"}
    assert written(9) == written(4)


def test_an_error_comes_with_its_traceback_in_a_block() -> None:
    stream = io.StringIO()
    configure(0, stream)
    try:
        raise ValueError("no good")
    except ValueError:
        get_logger("stowplan.x").exception("Broke", extra=kv(pod="default/a"))
    text = stream.getvalue()
    assert ' - stowplan.x - ERROR - Broke err="no good" pod="default/a" stacktrace=<' in text
    assert "Traceback (most recent call last)" in text


def test_a_message_is_one_line_and_none_is_left_out() -> None:
    stream = io.StringIO()
    configure(2, stream)
    for number in range(50):
        log.warning("Pod web-%d stays pending: a plugin said\n\x1b[2Jand\u2028more", number)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 50
    assert lines[0].endswith(r"Pod web-0 stays pending: a plugin said\n\x1b[2Jand\u2028more")
