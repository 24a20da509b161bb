"""Tables, JSON and YAML on standard output."""

from __future__ import annotations

import json

import pytest
import yaml

from stowplan.cli.tables import format_object, print_object, print_table


def test_objects() -> None:
    value = {"b": [1, 2.5, None], "a": {"é": "x: y"}}
    assert json.loads(format_object(value, "json")) == value
    assert yaml.safe_load(format_object(value, "yaml")) == value
    for output in ("json", "yaml"):
        text = format_object(value, "json" if output == "json" else "yaml")
        assert text.endswith("\n")
        assert text.index("b") < text.index("a")
        assert "é" in text


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["A"], [["x"]])
    print_object({"a": 1}, "yaml")
    assert capsys.readouterr().out == "A\nx\na: 1\n"
