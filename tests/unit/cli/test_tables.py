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


def test_json_has_no_raw_control_characters() -> None:
    controls = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0)]))
    value = {f"é{controls}": [f"船{controls}"]}
    text = format_object(value, "json")
    assert json.loads(text) == value
    assert text.replace("\n", "").isprintable()
    assert "é" in text


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["A"], [["x"]])
    print_object({"a": 1}, "yaml")
    assert capsys.readouterr().out == "A\nx\na: 1\n"
