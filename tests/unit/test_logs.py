"""Log lines as people and log collectors read them."""

from __future__ import annotations

import io
import json
import logging
import re
from typing import Any

import pytest

from stowplan.logs import V1, V2, V4, V5, Block, LogFormat, Plain, configure, get_logger, kv

HEADER = re.compile(r"([IWEF])\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ test_logs\.py:\d+\] (.*)", re.DOTALL)


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def start(verbosity: int = 0, fmt: LogFormat = "text") -> io.StringIO:
    root = logging.getLogger()
    # pytest's own handlers step aside: they raise where ours must not.
    root.handlers[:] = [h for h in root.handlers if not type(h).__module__.startswith("_pytest")]
    stream = io.StringIO()
    configure(verbosity, fmt, stream)
    return stream


def text_of(stream: io.StringIO) -> tuple[str, str]:
    """(severity, what follows the header) of the only line."""
    match = HEADER.fullmatch(stream.getvalue().removesuffix("\n"))
    assert match is not None, stream.getvalue()
    return match[1], match[2]


def json_of(stream: io.StringIO) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(stream.getvalue())
    return line


log = get_logger("stowplan.test")


def test_a_text_line_is_klogs() -> None:
    stream = start()
    log.info("Bound pod", extra=kv(pod="ns/a", node="n1", attempt=2, took=0.5, ok=True, why=None))
    assert text_of(stream) == (
        "I",
        '"Bound pod" pod="ns/a" node="n1" attempt=2 took=0.5 ok=true why=null',
    )


def test_the_header_is_aligned_for_seven_digit_process_ids() -> None:
    stream = start()
    record = log.makeRecord(log.name, logging.INFO, "loop.py", 42, "Hello", (), None)
    record.process = 12345
    record.created = 1763172605.123456
    log.handle(record)
    assert re.match(r"I\d{4} \d\d:\d\d:05\.12345\d   12345 loop\.py:42\] ", stream.getvalue())


@pytest.mark.parametrize(
    ("level", "letter"),
    [
        (V1, "I"),
        (logging.INFO, "I"),
        (logging.WARNING, "W"),
        (logging.ERROR, "E"),
        (logging.CRITICAL, "F"),
    ],
)
def test_severity_letters(level: int, letter: str) -> None:
    stream = start(verbosity=1)
    log.log(level, "Hello")
    assert text_of(stream) == (letter, '"Hello"')


def test_values_are_quoted() -> None:
    stream = start()
    log.info('Say "hi"', extra=kv(path="a\\b", tab="a\tb", many="one\ntwo", names=["a", "b"]))
    assert text_of(stream)[1] == (
        '"Say \\"hi\\"" path="a\\\\b" tab="a\\tb" many="one\\ntwo" names=["a","b"]'
    )


def test_a_dump_becomes_klogs_block() -> None:
    stream = start()
    log.info("Dump", extra=kv(many=Block("one\ntwo"), single=Block("one")))
    assert text_of(stream)[1] == '"Dump" many=<\n\tone\n\ttwo\n > single="one"'


def test_the_error_of_an_info_line_stays_where_it_is() -> None:
    stream = start()
    log.info("Waiting", extra=kv(pod="ns/a", err="no fit"))
    assert text_of(stream)[1] == '"Waiting" pod="ns/a" err="no fit"'


def test_verbosity_rules_which_lines_are_written() -> None:
    stream = start(verbosity=2)
    assert log.isEnabledFor(V2)
    assert not log.isEnabledFor(V4)
    log.log(V2, "Seen")
    log.log(V4, "Not seen")
    assert "Not seen" not in stream.getvalue()
    assert text_of(stream)[1] == '"Seen"'


def test_high_and_negative_verbosity_are_accepted() -> None:
    start(verbosity=99)
    assert log.isEnabledFor(logging.DEBUG)
    start(verbosity=-1)
    assert log.isEnabledFor(logging.INFO)


def test_other_libraries_speak_from_warning_up() -> None:
    stream = start(verbosity=5)
    foreign = logging.getLogger("some.library")
    foreign.info("Not seen")
    foreign.warning("took %d s", 3)
    assert text_of(stream) == ("W", '"took 3 s"')


def test_a_users_plugin_obeys_the_verbosity() -> None:
    stream = start(verbosity=5)
    get_logger("my_plugin").log(V5, "Scored")
    assert text_of(stream)[1] == '"Scored"'
    assert get_logger("stowplan").name == "stowplan"


def test_configure_replaces_only_its_own_handler() -> None:
    first, foreign = start(), logging.NullHandler()
    logging.getLogger().addHandler(foreign)
    second = start()
    log.info("Hello")
    assert first.getvalue() == ""
    assert text_of(second)[1] == '"Hello"'
    assert foreign in logging.getLogger().handlers


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match='unknown log format \'xml\': use "text" or "json"'):
        configure(0, "xml")  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    ("level", "verbosity", "shown"),
    [
        (logging.WARNING, 3, False),
        (logging.WARNING, 4, True),
        (V4, 4, True),
        (logging.ERROR, 0, True),
    ],
)
def test_a_traceback_is_for_errors_and_for_the_curious(
    level: int, verbosity: int, shown: bool
) -> None:
    stream = start(verbosity)
    try:
        raise ValueError("bad input")
    except ValueError as error:
        log.log(level, "Failed", exc_info=error, extra=kv(pod="ns/a"))
    text = text_of(stream)[1]
    assert text.startswith('"Failed" err="bad input" pod="ns/a"')
    assert ("Traceback (most recent call last)" in text) is shown


def test_an_error_given_as_a_value_comes_first_and_has_no_traceback() -> None:
    stream = start(verbosity=5)
    log.error("Failed", extra=kv(pod="ns/a", err=TimeoutError()))
    assert text_of(stream) == ("E", '"Failed" err="TimeoutError" pod="ns/a"')


def test_a_json_line_has_upstreams_fields() -> None:
    stream = start(verbosity=2, fmt="json")
    log.log(V2, "Bound pod", extra=kv(pod="ns/a", scores=[1, 2], msg="shadow"))
    line = json_of(stream)
    assert isinstance(line["ts"], float)
    assert line["ts"] > 1.7e12
    assert re.fullmatch(r"unit/test_logs\.py:\d+", line["caller"])
    assert list(line)[:5] == ["ts", "logger", "caller", "msg", "v"]
    del line["ts"], line["caller"]
    assert line == {
        "v": 2,
        "msg": "Bound pod",
        "logger": "stowplan.test",
        "pod": {"name": "a", "namespace": "ns"},
        "scores": [1, 2],
        "msg_": "shadow",
    }


def test_json_names_objects_as_upstream_does() -> None:
    stream = start(fmt="json")
    log.info("Bound", extra=kv(pod="ns/a", node="n1", victim="ns/b", preemptor=3, claim="ns/c"))
    line = json_of(stream)
    assert line["pod"] == {"name": "a", "namespace": "ns"}
    assert line["node"] == {"name": "n1"}
    assert line["victim"] == {"name": "b", "namespace": "ns"}
    assert (line["preemptor"], line["claim"]) == (3, "ns/c")


def test_a_plain_name_stays_a_text() -> None:
    stream = start(fmt="json")
    log.info("Bound", extra=kv(node=Plain("n1")))
    assert json_of(stream)["node"] == "n1"


def test_the_error_of_a_json_error_comes_last() -> None:
    stream = start(fmt="json")
    log.error("Failed", extra=kv(err="why", pod="ns/a"))
    assert list(json_of(stream)) == ["ts", "logger", "caller", "msg", "pod", "err"]


def test_a_json_error_has_err_and_stacktrace_but_no_v() -> None:
    stream = start(fmt="json")
    try:
        raise KeyError("x")
    except KeyError:
        log.exception("Failed")
    line = json_of(stream)
    assert line["err"] == "'x'"
    assert line["stacktrace"].startswith("Traceback (most recent call last)")
    assert "v" not in line


@pytest.mark.parametrize("fmt", ["text", "json"])
def test_odd_values_never_raise_and_never_lose_the_line(
    fmt: LogFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = start(fmt=fmt)
    cycle: list[object] = []
    cycle.append(cycle)
    odd: dict[str, object] = {
        "broken": Broken(),
        "inside": [Broken(), {"k": Broken()}],
        "surrogate": "\ud800",
        "nul": "a\x00b",
        "cycle": cycle,
        "huge": 10**400,
        "nan": float("nan"),
        "bytes": b"\xff",
        "keys": {(1, 2): 3, None: 4},
        "type": int,
        "a b=c": 1,
        "err": Broken(),
        "last": "seen",
    }
    log.info("Odd \ud800", extra=kv(**odd))
    written = stream.getvalue()
    assert written.count("\n") == 1
    assert "seen" in written
    assert "unprintable Broken" in written
    written.encode()  # no lone surrogate may reach a stream
    if fmt == "json":
        line = json_of(stream)
        assert line["last"] == "seen"
        assert isinstance(line["ts"], float)
    assert capsys.readouterr().err == ""


_FORGED = 'I1117 11:00:00.000000       1 binding.py:1] "Bound pod" pod="kube-system/admin"'


@pytest.mark.parametrize("fmt", ["text", "json"])
@pytest.mark.parametrize(
    "end", ["\n", "\r", "\r\n", "\x85", "\u2028", "\x0b", '"\n', "\n >\n", "\\\n"]
)
def test_a_name_or_label_never_forges_a_line(fmt: LogFormat, end: str) -> None:
    """Only klog's block has further lines, each after a tab; terminals and collectors agree."""
    stream = start(fmt=fmt)
    bad = f"web{end}{_FORGED}"
    log.info(bad, extra=kv(**{"name": bad, "labels": {bad: bad}, "list": [bad], bad: bad}))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1
    if fmt == "json":
        assert json.loads(lines[0])["name"] == bad


@pytest.mark.parametrize("end", ["\n", "\r", "\u2028", "\n >\n"])
def test_a_block_never_forges_a_line(end: str) -> None:
    stream = start()
    log.info("Dump", extra=kv(many=Block(f"one\nweb{end}{_FORGED}")))
    lines = stream.getvalue().removesuffix("\n").split("\n")
    assert all(line.startswith(("\t", " >")) for line in lines[1:])
    assert not any(HEADER.match(part) for line in lines[1:] for part in line.splitlines())
    assert len(stream.getvalue().splitlines()) == len(lines)


@pytest.mark.parametrize("fmt", ["text", "json"])
def test_what_is_not_key_values_is_ignored(fmt: LogFormat) -> None:
    stream = start(fmt=fmt)
    log.info("Hello", extra={"kv": ["not", "a", "mapping"]})
    assert "Hello" in stream.getvalue()
    assert "mapping" not in stream.getvalue()


def test_a_foreign_format_string_that_fails_is_still_written() -> None:
    stream = start()
    logging.getLogger("some.library").warning("%d items", "x")
    assert text_of(stream)[1] == "\"%d items ('x',)\""


def test_an_exception_that_cannot_be_looked_at_is_still_written() -> None:
    class Hostile(Exception):
        def __getattribute__(self, name: str) -> object:
            raise RuntimeError(name)

    stream = start()
    log.error("Failed", exc_info=(Hostile, Hostile("why"), None))
    assert text_of(stream)[1] == ('"Failed" err="why" stacktrace="<no traceback: RuntimeError>"')


def test_a_closed_stream_is_survived(capsys: pytest.CaptureFixture[str]) -> None:
    stream = start()
    stream.close()
    log.info("Hello")
    assert capsys.readouterr().err == ""


def test_logs_go_to_stderr_unless_told_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    configure(0, "text")
    log.info("Hello")
    captured = capsys.readouterr()
    assert '"Hello"' in captured.err
    assert captured.out == ""


def test_vmodule_raises_the_verbosity_of_files() -> None:
    early = get_logger("stowplan.queue.vmodule_early")
    stream = io.StringIO()
    configure(1, "text", stream, vmodule=[("vmodule_e*", 4), ("stowplan/queue/*", 2)])
    late, other = get_logger("stowplan.queue.vmodule_late"), get_logger("stowplan.vmodule_other")
    assert [logger.isEnabledFor(V4) for logger in (early, late, other)] == [True, False, False]
    assert [logger.isEnabledFor(V2) for logger in (early, late, other)] == [True, True, False]
    assert other.isEnabledFor(V1)
    configure(0, "text", stream)
    assert not any(logger.isEnabledFor(V1) for logger in (early, late, other))


def test_vmodule_never_lowers_the_verbosity() -> None:
    configure(4, "text", io.StringIO(), vmodule=[("vmodule_low", 1)])
    assert get_logger("stowplan.vmodule_low").isEnabledFor(V4)
    configure(0, "text", io.StringIO())


def test_split_streams(capsys: pytest.CaptureFixture[str]) -> None:
    configure(0, "text", split=True)
    log = get_logger("stowplan.split")
    log.warning("below")
    log.error("above")
    configure(0, "text", io.StringIO())
    shown = capsys.readouterr()
    assert ('"below"' in shown.out, '"above"' in shown.out) == (True, False)
    assert ('"below"' in shown.err, '"above"' in shown.err) == (False, True)
