"""One record is one line that can be read back, whatever names, labels and errors contain."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from stowplan.logs import JsonFormatter, TextFormatter

#: A string of Go, as klog writes them.
QUOTED = r'"(?:[^"\\]|\\.)*"'
LINE = re.compile(rf"([IWEF])\d{{4}} [\d:.]+ +\d+ \w+\.py:\d+\] ({QUOTED})((?: \w+={QUOTED})*)")
ESCAPE = re.compile(r"\\(?:x(..)|u(....)|U(.{8})|(.))")
SIMPLE = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}

#: Surrogates too: a name decoded with surrogateescape has them.
anything = st.text(alphabet=st.characters(codec=None), max_size=30) | st.text(
    alphabet='a"\\\n\r\t\x1b[\x85\u2028\u2029\u202e\x00\x7f\ud800=} ', max_size=30
)
levels = st.sampled_from([logging.INFO, logging.WARNING, logging.ERROR, logging.INFO - 4])


def unquoted(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        return chr(int(code, 16)) if code else SIMPLE[match[4]]

    return ESCAPE.sub(plain, text[1:-1])


def record(level: int, message: str, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("stowplan.x", level, "/src/stowplan/x.py", 7, message, None, None)
    made.kv = fields
    return made


@given(levels, anything, anything, anything)
@example(logging.INFO, "a\nI1117 11:00:00.000000 1 x.py:1] b", "\x1b[2K\r", "\u2028")
def test_a_text_line_is_read_back(level: int, message: str, label: str, error: str) -> None:
    line = TextFormatter().format(record(level, message, label=label, err=error))
    assert line.splitlines() == [line]
    assert line.isprintable()
    line.encode()
    match = LINE.fullmatch(line)
    assert match is not None
    assert unquoted(match[2]) == message
    pairs = dict(pair.split("=", 1) for pair in re.findall(rf" (\w+={QUOTED})", match[3]))
    found = {key: unquoted(value) for key, value in pairs.items()}
    assert found == {"label": label, "err": error}


@given(levels, anything, anything, anything)
@example(logging.ERROR, "a\n{}", "\u2028", '"}\n{"msg":"forged"}')
def test_a_json_line_is_read_back(level: int, message: str, label: str, error: str) -> None:
    line = JsonFormatter().format(record(level, message, labels={label: label}, err=error))
    assert line.splitlines() == [line]
    assert line.isprintable()
    line.encode()
    found: dict[str, Any] = json.loads(line)
    assert (found["caller"], "v" in found) == ("stowplan/x.py:7", level < logging.ERROR)
    if not any("\ud800" <= char <= "\udfff" for char in message + label + error):
        assert found["msg"] == message
        assert found["labels"] == {label: label}
        assert found["err"] == error
