"""Expressions of the CEL project's conformance files, read from Go's module cache.

The files are text protos. Of each test only `expr` is taken: what is right here is what cel-go says
in kube-scheduler's environment, which has other types and libraries than the files assume.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from stowplan.lab.controlplane.targets import KUBERNETES
from tests.parity.cel.beside import TRIES, same_refusal, sorted_maps, value_of
from tests.parity.oracle import Json, Oracle

_STRING = r"""(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
_EXPRESSION = re.compile(rf"^\s*expr:\s*((?:{_STRING}\s*)+)", re.MULTILINE)
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|u.{4}|U.{8}|.)")
_TESTS = "cel.dev/expr@{}/tests/simple/testdata"
#: Evaluated without a device on the oracle's side where the expression is not a selector.
_DEVICE: Json = {"driver": "gpu.example.com"}


def expressions() -> list[str]:
    """All expressions, in the order of the files; none if the module is not there."""
    cache = Path(os.environ.get("GOMODCACHE") or Path.home() / "go" / "pkg" / "mod")
    go_mod = (KUBERNETES.directory / "go.mod").read_text(encoding="utf-8")
    version = re.search(r"cel\.dev/expr (v\S+)", go_mod)
    assert version is not None
    files = sorted((cache / _TESTS.format(version[1])).glob("*.textproto"))
    return [
        "".join(map(_unescaped, re.findall(_STRING, found)))
        for file in files
        for found in _EXPRESSION.findall(file.read_text(encoding="utf-8"))
    ]


def _unescaped(literal: str) -> str:
    return _ESCAPE.sub(_escaped, literal[1:-1].encode()).decode()


def _escaped(match: re.Match[bytes]) -> bytes:
    text = match[1].decode()
    if text[0] in "uU":
        return chr(int(text[1:], 16)).encode()
    if text[0] in "x01234567":
        return bytes([int(text.lstrip("x"), 16 if text[0] == "x" else 8)])
    return dict(zip("abfnrtv", b"\a\b\f\n\r\t\v", strict=True)).get(text, ord(text)).to_bytes()


def verdict(oracle: Oracle, expression: str) -> str:
    """How our answer relates to cel-go's, in a word or two for counting."""
    theirs = oracle.answer({"expression": expression, "devices": [_DEVICE]})
    ours = value_of(expression, _DEVICE)
    if "compileError" in theirs or "compileError" in ours:
        if ("compileError" in theirs) != ("compileError" in ours):
            return "only ours refuses" if "compileError" in ours else "only cel-go refuses"
        same = same_refusal(theirs["compileError"], ours["compileError"])
        return "same refusal" if same else "refused in other words"
    for _ in range(TRIES):
        if _same_value(theirs, ours):
            return "same value"
        theirs = oracle.answer({"expression": expression, "devices": [_DEVICE]})
    return "other value"


def _same_value(theirs: Json, ours: Json) -> bool:
    result = theirs["results"][0]
    if "error" in result:
        return ours.get("error") == result["error"] or "converted to bool" in result["error"]
    value = sorted_maps(result.get("value")) if "refused" in theirs else result["matches"]
    return bool(value == ours.get("value") and result["cost"] == ours.get("cost"))
