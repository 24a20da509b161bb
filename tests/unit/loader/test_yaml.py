"""YAML as sigs.k8s.io/yaml reads it: expected values are those of go-yaml v2 (resolve.go)."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from stowplan.loader.malformed import Limits, Malformed
from stowplan.loader.yaml_text import How, Repeated, dump_yaml, load_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", True),
        ("y", True),
        ("N", False),
        ("~", None),
        ("0777", 511),
        ("0o17", 15),
        ("0888", 888),
        ("0x1F", 31),
        ("-0b11", -3),
        ("1_000", 1000),
        ("+5", 5),
        ("3.0", 3),
        ("1e3", 1000),
        (".5", 0.5),
        ("1:30", "1:30"),
        ("2001-99-99", "2001-99-99"),
        ("2001-01-01", "2001-01-01"),
        ("18446744073709551615", 2**64 - 1),
        ("1" * 25, 1.1111111111111111e24),
        ("1e999", "1e999"),
        ("=", "="),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("!!float 3", 3),
        ("\ufeffa", "a"),
    ],
)
def test_scalars_as_go_yaml_reads_them(text: str, value: Any) -> None:
    found = load_yaml(text)
    assert (found, type(found)) == (value, type(value))


def test_keys_are_text() -> None:
    assert load_yaml("1: a\n2.5: b\non: c") == {"1": "a", "2.5": "b", "true": "c"}
    assert load_yaml("on: c", How(located=True)) == {"on": "c"}


def test_merges_count_in_the_order_of_the_text() -> None:
    text = "a: &a {x: 1, y2: 1}\nb: {<<: *a, x: 2}\nc: {x: 2, <<: [*a, {x: 3, z: 3}]}\n"
    found = load_yaml(text)
    assert found["b"] == {"x": 2, "y2": 1}
    assert found["c"] == {"x": 1, "y2": 1, "z": 3}


def test_of_equal_keys_the_last_counts_and_all_are_told() -> None:
    repeated: list[Repeated] = []
    assert load_yaml("a:\n- b: 1\n  b: 2\n", How(repeated=repeated)) == {"a": [{"b": 2}]}
    assert repeated == [Repeated("a[0].b", "b", 2, 3, 3)]


@pytest.mark.parametrize("data", [b"\xff\xfea\0:\0 \x001\0", b"\xef\xbb\xbfa: 1", b"a: 1\r\n"])
def test_encodings(data: bytes) -> None:
    assert load_yaml(data) == {"a": 1}


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("[[[1]]]", Limits(depth=2)),
        ("a: &a [[1]]\nb: [*a]", Limits(depth=3)),
        ("a: &a [1, 2]\nb: [*a, *a]", Limits(aliased=5)),
        ("a: &a {b: 1}\nc: {<<: *a}", Limits(aliased=2)),
        ("12345", Limits(digits=4)),
        ("a: " + "b" * 2000, Limits(size=1000)),
    ],
)
def test_limits(text: str, limits: Limits) -> None:
    assert load_yaml(text)
    with pytest.raises(Malformed):
        load_yaml(text, How(limits))


@pytest.mark.parametrize(
    "text",
    [
        *("y", "n", "1e3", "0o17", "1_0", "on", "2001-01-01", "1:30", "a b"),
        *("a\x85b", "1\x85", "a\u2028b", "\u2029", "a\n\x85b"),
    ],
)
def test_what_is_written_is_read_as_the_same_text(text: str) -> None:
    written = dump_yaml({text: [text]})
    assert load_yaml(written) == yaml.safe_load(written) == {text: [text]}
