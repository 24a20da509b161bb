"""Arguments in the extender's configuration: what they become, and every message with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stowplan.extender.data import Resource

from . import shapes_of_arguments
from .configuration_kit import OWN, Load, everything, problem_of
from .shapes_of_arguments import Colour, Everything, Inner, Old


def test_arguments_become_what_the_annotation_says(load_text: Load) -> None:
    built = everything(
        load_text,
        "{text: x, whole: 3, number: 2, flag: yes, names: [a, b], pair: [a], plain_list: [1, x], "
        "dimensions: [cpu, membw_read], weights: {cpu: 1, mem: 0.5}, table: {n: {a: 1}}, "
        "colour: 2, maybe: null, either: [1], choice: b, limited: 60, path: /tmp, "
        "inner: &i !Inner {name: y}, inners: [*i, !Inner , !Inner ], whatever: {a: [1]}}",
    )
    inner = Inner("y")
    assert built == Everything(
        "x", 3, 2, True, ["a", "b"], ("a",), [1, "x"],
        [Resource.CPU, Resource.MEMBW_READ], {Resource.CPU: 1, Resource.MEM: 0.5},
        {"n": {"a": 1}}, Colour.BLUE, None, [1], "b", 60, Path("/tmp"), inner,
        [inner, Inner(), Inner()], {"a": [1]},
    )  # fmt: skip
    assert built.inner is built.inners[0]
    assert all(isinstance(each, Resource) for each in built.dimensions)


@pytest.mark.parametrize(
    ("field", "value", "shown", "problem"),
    [
        ("text", "1", "1", "improper type (got=a whole number expected=text)!"),
        ("text", "null", "None", "improper type (got=nothing expected=text)!"),
        ("whole", "1.5", "1.5", "improper type (got=a number expected=a whole number)!"),
        ("whole", "true", "True", "improper type (got=true or false expected=a whole number)!"),
        ("number", "x", "'x'", "improper type (got=text expected=a number)!"),
        ("number", "true", "True", "improper type (got=true or false expected=a number)!"),
        ("number", ".nan", "nan", "improper type (got=a number expected=a number)!"),
        ("flag", "1", "1", "improper type (got=a whole number expected=true or false)!"),
        ("names", "a", "'a'", "improper type (got=text expected=a list)!"),
        ("names", "{}", "{}", "improper type (got=a mapping expected=a list)!"),
        (
            "names", "[a, 2]", "['a', 2]",
            "invalid item in list at index 1: improper type (got=a whole number expected=text)!",
        ),
        (
            "dimensions", "[cpu, gpu]", "['cpu', 'gpu']",
            "invalid item in list at index 1: improper value from enum kind (got='gpu' allowed="
            "['cpu', 'mem', 'membw_read', 'membw_write', 'wss', 'membw', 'membw_flat'])!",
        ),
        ("weights", "[1]", "[1]", "improper type (got=a list expected=a mapping)!"),
        (
            "weights", "{gpu: 1}", "{'gpu': 1}",
            "Invalid key='gpu' in dict: improper value from enum kind (got='gpu' allowed="
            "['cpu', 'mem', 'membw_read', 'membw_write', 'wss', 'membw', 'membw_flat'])!",
        ),
        (
            "weights", "{cpu: much}", "{'cpu': 'much'}",
            "invalid value 'much' in dict at key 'cpu': "
            "improper type (got=text expected=a number)!",
        ),
        (
            "table", "{n: {a: x}}", "{'n': {'a': 'x'}}",
            "invalid value {'a': 'x'} in dict at key 'n': invalid value 'x' in dict at key 'a': "
            "improper type (got=text expected=a whole number)!",
        ),
        ("colour", "green", "'green'",
         "improper value from enum kind (got='green' allowed=['red', 2])!"),
        ("maybe", "x", "'x'", "improper type (got=text expected=a number)!"),
        ("either", "x", "'x'", "improper type (got=text expected=a whole number)!; "
         "or improper type (got=text expected=a list)!"),
        ("choice", "c", "'c'", "improper type (got=text expected=one of 'a', 'b')!"),
        ("limited", "0", "0", "Minimum value is 1. Got 0."),
        ("limited", "60.5", "60.5", "Maximum value is 60. Got 60.5."),
        ("limited", "x", "'x'", "improper type (got=text expected=a number)!"),
        ("inner", "x", "'x'", "improper type (got=text expected=Inner)!"),
        ("inner", "!Old ", "!Old", "improper type (got=Old expected=Inner)!"),
    ],
)  # fmt: skip
def test_arguments_of_the_wrong_type(
    load_text: Load, field: str, value: str, shown: str, problem: str
) -> None:
    text = f"{OWN}algorithm: !Everything\n  {field}:   {value}\n"
    column = len(field) + 7
    assert problem_of(load_text, text) == (
        f'Invalid value {shown} in "config.yaml", line 3, column {column} '
        f"for field {field!r} in class 'Everything': {problem}"
    )


def test_arguments_without_annotations_are_taken_as_they_are(load_text: Load) -> None:
    old = load_text(OWN + "algorithm: !Old {plain: [1], typed: x, other: {a: 1}}\n").algorithm
    assert isinstance(old, Old)
    assert old.given == ([1], "x", {"other": {"a": 1}})


def line_of(text: str) -> str:
    """Where the constructor of a user's class raises."""
    lines = SHAPES.read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if text in line]
    return f"{SHAPES}:{number}"


SHAPES = Path(shapes_of_arguments.__file__)
SIGNATURE = "(constructor signature is: (how: str = '', limit: int = 0)): "


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            "{hwo: x}",
            "Cannot instantiate 'Fails' in \"config.yaml\", line 2, column 25 with "
            f"arguments={{'hwo': 'x'}} {SIGNATURE}it has no field 'hwo'; did you mean 'how'?",
        ),
        (
            "{1: x}",
            "Cannot instantiate 'Fails' in \"config.yaml\", line 2, column 23 with "
            f"arguments={{'1': 'x'}} {SIGNATURE}it has no field '1'",
        ),
        (
            "{how: config}",
            "Cannot instantiate 'Fails' in \"config.yaml\", line 2, column 12 with "
            f"arguments={{'how': 'config'}} {SIGNATURE}it cannot be so",
        ),
        (
            "{how: value}",
            "Cannot instantiate 'Fails' in \"config.yaml\", line 2, column 12 with "
            f"arguments={{'how': 'value'}} {SIGNATURE}no such luck ({line_of('no such luck')})",
        ),
        (
            "{how: silent}",
            "Cannot instantiate 'Fails' in \"config.yaml\", line 2, column 12 with "
            f"arguments={{'how': 'silent'}} {SIGNATURE}KeyError ({line_of('raise KeyError')})",
        ),
        (
            "[x]",
            "Cannot instantiate 'Fails' in \"config.yaml\", line 2, column 12 with "
            f"arguments={{}} {SIGNATURE}it takes fields, not a list",
        ),
        # A constructor that says which field is wrong.
        (
            "{how: field, limit: 3}",
            "Invalid value 3 in \"config.yaml\", line 2, column 39 for field 'limit' in class "
            "'Fails': 3 is too few",
        ),
    ],
)
def test_what_constructors_refuse(load_text: Load, fields: str, problem: str) -> None:
    assert problem_of(load_text, f"{OWN}algorithm: !Fails {fields}\n") == problem


def test_a_missing_argument(load_text: Load) -> None:
    problem = problem_of(load_text, "algorithm: !StaticAssigner\n  alias: x\n")
    assert problem.startswith(
        "Cannot instantiate 'StaticAssigner' in \"config.yaml\", line 1, column 12 with "
        "arguments={'alias': 'x'} (constructor signature is: (data_provider: DataProvider, "
    )
    assert problem.endswith(": it needs 'data_provider', 'targeted_assigned_apps_counts'")


def test_a_value_that_no_class_takes_is_warned_about(
    load_text: Load, caplog: pytest.LogCaptureFixture
) -> None:
    load_text("algorithm: !NOPAlgorithm please\n")
    [warning] = caplog.records
    assert warning.__dict__["kv"] == {
        "value": "please",
        "tag": "!NOPAlgorithm",
        "where": 'in "config.yaml", line 1, column 12',
    }


def test_what_is_annotated_any_may_be_anything(load_text: Load) -> None:
    value: Any = everything(load_text, "{whatever: 2020-01-01}").whatever
    assert str(value) == "2020-01-01"


def test_arguments_in_messages_are_redacted(load_text: Load) -> None:
    fields = "{text: 'http://u:s3cret@h/x', token: s3cret, whatever: {password: s3cret}}"
    problem = problem_of(load_text, f"{OWN}algorithm: !Everything {fields}\n")
    assert "s3cret" not in problem
    assert "'text': 'http://u:xxxxx@h/x', 'token': 'REDACTED'" in problem
