"""Selectors and tolerations against answers that are not ours.

`tests/data/selector_reference.json` was printed by tools/reference from the real apimachinery and
component-helpers 1.36: texts, objects, error messages, and the answer for every label set.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.labels import Operator, Requirement, join_errors, make_requirement
from stowplan.api.objects import LabelSelector, NodeSelector, Taint, Toleration
from stowplan.api.selectors import (
    CompiledSelector,
    compile_label_selector,
    compile_node_selector,
    parse_field_selector,
    parse_label_selector,
)
from stowplan.api.tolerations import Tolerations, tolerates

DATA = Path(__file__).parent.parent / "data" / "selector_reference.json"
TABLE: dict[str, list[dict[str, Any]]] = json.loads(DATA.read_text())


def ident(case: dict[str, Any]) -> str:
    text = case["in"] if isinstance(case["in"], str) else json.dumps(case["in"])
    return text[:80]


def bits(answers: list[bool]) -> str:
    return "".join("1" if answer else "0" for answer in answers)


def test_the_table_is_all_there() -> None:
    counts = {name: len(cases) for name, cases in TABLE.items()}
    assert counts["labelTexts"] > 200
    assert counts["fieldTexts"] > 40
    assert counts["labelSelectors"] > 100
    assert counts["nodeSelectors"] > 150
    assert counts["tolerations"] > 400
    assert any("error" not in case and "1" in case["matches"] for case in TABLE["labelTexts"])


@pytest.mark.parametrize("case", TABLE["labelTexts"], ids=ident)
def test_label_selector_texts(case: dict[str, Any]) -> None:
    if "error" in case:
        with pytest.raises(ValueError) as caught:
            parse_label_selector(case["in"])
        assert str(caught.value) == case["error"]
        return
    selector = parse_label_selector(case["in"])
    assert bits([selector.matches(labels) for labels in TABLE["labelSets"]]) == case["matches"]
    assert parse_label_selector(str(selector)) == selector


@pytest.mark.parametrize("case", TABLE["fieldTexts"], ids=ident)
def test_field_selector_texts(case: dict[str, Any]) -> None:
    if "error" in case:
        with pytest.raises(ValueError) as caught:
            parse_field_selector(case["in"])
        assert str(caught.value) == case["error"]
        return
    selector = parse_field_selector(case["in"])
    assert bits([selector.matches(fields) for fields in TABLE["fieldSets"]]) == case["matches"]
    assert parse_field_selector(str(selector)) == selector


@pytest.mark.parametrize("case", TABLE["labelSelectors"], ids=ident)
def test_label_selector_objects(case: dict[str, Any]) -> None:
    given_selector = msgspec.convert(case["in"], LabelSelector | None)
    if "error" in case:
        with pytest.raises(ValueError) as caught:
            compile_label_selector(given_selector)
        assert str(caught.value) == case["error"]
        return
    selector = compile_label_selector(given_selector)
    assert bits([selector.matches(labels) for labels in TABLE["labelSets"]]) == case["matches"]


@pytest.mark.parametrize("case", TABLE["nodeSelectors"], ids=ident)
def test_node_selectors(case: dict[str, Any]) -> None:
    selector = compile_node_selector(msgspec.convert(case["in"], NodeSelector))
    answers = [selector.matches(node["labels"], node["name"]) for node in TABLE["nodes"]]
    assert bits(answers) == case["matches"]
    assert (join_errors(selector.errors) if selector.errors else None) == case.get("error")


def test_tolerations() -> None:
    for case in TABLE["tolerations"]:
        toleration = msgspec.convert(case["toleration"], Toleration)
        taint = msgspec.convert(case["taint"], Taint)
        assert tolerates(toleration, taint) is case["tolerates"], case
        left = Tolerations((toleration,)).find_untolerated((taint,), (taint.effect,))
        assert left == (None if case["tolerates"] else taint), case


keys = st.sampled_from(["a", "b", "n", "example.com/zone"])
values = st.sampled_from(["", "x", "y", "1", "5", "05", "10"])
label_sets = st.dictionaries(keys, st.sampled_from(["", "x", "y", "1", "5", "05", "10", "-3", "?"]))


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    key = draw(keys)
    operator: Operator = draw(
        st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
    )
    if operator in ("Exists", "DoesNotExist"):
        return make_requirement(key, operator, ())
    if operator in ("Gt", "Lt"):
        return make_requirement(key, operator, [draw(st.sampled_from(["1", "5", "05", "10"]))])
    return make_requirement(key, operator, draw(st.lists(values, min_size=1, max_size=4)))


def holds(requirement: Requirement, labels: dict[str, str]) -> bool:
    """The definition, a line for each operator."""
    key, operator, wanted = requirement
    present = key in labels
    number = int(labels[key]) if present and labels[key].lstrip("-").isdecimal() else None
    return {
        "In": present and labels[key] in wanted,
        "NotIn": not present or labels[key] not in wanted,
        "Exists": present,
        "DoesNotExist": not present,
        "Gt": number is not None and operator == "Gt" and number > int(wanted[0]),
        "Lt": number is not None and operator == "Lt" and number < int(wanted[0]),
    }[operator]


@given(st.lists(requirements(), max_size=4), label_sets)
def test_a_selector_is_the_conjunction_of_its_requirements(
    needed: list[Requirement], labels: dict[str, str]
) -> None:
    selector = CompiledSelector(tuple(needed))
    assert selector.matches(labels) is all(holds(one, labels) for one in needed)


@given(st.lists(requirements(), max_size=4), st.randoms())
def test_text_and_order_do_not_change_a_selector(needed: list[Requirement], random: Random) -> None:
    selector = CompiledSelector().adding(needed)
    shuffled = list(needed)
    random.shuffle(shuffled)
    again = parse_label_selector(",".join(map(str, shuffled + shuffled[:1])))
    assert again == selector
    assert hash(again) == hash(selector)


@given(st.text(max_size=20) | st.text("ab=!(),<> \tinot\\", max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_label_selector, parse_field_selector):
        try:
            selector = parse(text)
        except ValueError:
            continue
        assert parse(str(selector)) == selector
