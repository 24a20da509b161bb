"""Bodies as Go's encoding/json writes and reads them."""

from __future__ import annotations

import json

import msgspec
import pytest

from stowplan.scheduler import extender_wire as wire
from stowplan.scheduler.extender_requests import FilterAnswer

POD = msgspec.Raw(b'{"metadata":{"name":"p"},"spec":{"unknown":1}}')
NODE = msgspec.Raw(b'{"metadata":{"name":"n"},"status":{"images":[]}}')


def test_nodes_go_out_by_name_or_whole_never_both() -> None:
    names = json.loads(wire.about_nodes(POD, names=["a", "b"], nodes=()))
    assert names == {"Pod": json.loads(bytes(POD)), "Nodes": None, "NodeNames": ["a", "b"]}
    whole = json.loads(wire.about_nodes(POD, names=None, nodes=[NODE]))
    assert whole["NodeNames"] is None
    assert whole["Nodes"] == {"metadata": {}, "items": [json.loads(bytes(NODE))]}


def test_victims_go_out_by_uid_or_whole() -> None:
    by_uid = json.loads(wire.about_victims(POD, {"n": (["u1", "u2"], 1)}))
    assert by_uid["NodeNameToVictims"] is None
    assert by_uid["NodeNameToMetaVictims"] == {
        "n": {"Pods": [{"UID": "u1"}, {"UID": "u2"}], "NumPDBViolations": 1}
    }
    whole = json.loads(wire.about_whole_victims(POD, {"n": ([POD], 0)}))
    assert whole["NodeNameToMetaVictims"] is None
    assert whole["NodeNameToVictims"]["n"]["Pods"] == [json.loads(bytes(POD))]


def test_a_binding_goes_out() -> None:
    assert json.loads(wire.about_binding("p", "ns", "u", "n")) == {
        "PodName": "p",
        "PodNamespace": "ns",
        "PodUID": "u",
        "Node": "n",
    }


@pytest.mark.parametrize(
    ("body", "names_count", "nodes"),
    [
        ({"NodeNames": ["b", "a"]}, True, ["b", "a"]),
        ({"nodenames": ["b"]}, True, ["b"]),
        ({"NodeNames": None, "Nodes": {"items": [{"metadata": {"name": "c"}}]}}, True, ["c"]),
        ({"NodeNames": ["b"], "Nodes": {"items": []}}, False, []),
        ({"Nodes": {"items": [{"metadata": {"name": "c", "x": 1}, "spec": {}}]}}, False, ["c"]),
        ({"Nodes": {"items": None}}, False, []),
        ({"NodeNames": ["b"]}, False, []),
        ({"Nodes": None}, False, []),
        ({}, True, []),
        (None, True, []),
    ],
)
def test_which_nodes_an_answer_keeps(body: object, names_count: bool, nodes: list[str]) -> None:
    answer = wire.read_filter_answer(json.dumps(body).encode(), names_count=names_count)
    assert isinstance(answer, FilterAnswer)
    assert answer.nodes == nodes


def test_why_the_others_are_out() -> None:
    body = {
        "nodeNames": [],
        "failedNodes": {"a": "x"},
        "FAILEDANDUNRESOLVABLENODES": {"b": "y"},
        "Error": "",
        "Unknown": 3,
    }
    answer = wire.read_filter_answer(json.dumps(body).encode(), names_count=True)
    assert isinstance(answer, FilterAnswer)
    assert (answer.failed, answer.unresolvable) == ({"a": "x"}, {"b": "y"})
    none = b'{"FailedNodes": null, "FailedAndUnresolvableNodes": null, "Error": null}'
    answer = wire.read_filter_answer(none, names_count=True)
    assert isinstance(answer, FilterAnswer)
    assert (answer.failed, answer.unresolvable) == ({}, {})


def test_an_error_beats_everything() -> None:
    assert wire.read_filter_answer(b'{"NodeNames":["a"],"error":"no"}', names_count=True) == "no"


def test_scores_are_scaled_and_weighed() -> None:
    body = b'[{"Host":"a","Score":7},{"host":"b","score":-1},{"Host":"a","Score":1},{"Host":"c"}]'
    assert wire.read_scores(body, 3) == {"a": (7 + 1) * 3 * 10, "b": -30, "c": 0}
    assert wire.read_scores(b"null", 3) == {}


def test_victims_come_back_by_uid() -> None:
    body = {
        "NodeNameToMetaVictims": {
            "Node-A": {"Pods": [{"UID": "u1"}, {"uid": "u2"}], "NumPDBViolations": 2},
            "b": {"Pods": None},
            "c": None,
        }
    }
    assert wire.read_victims(json.dumps(body).encode()).victims == {
        "Node-A": (["u1", "u2"], 2),
        "b": ([], 0),
        "c": ([], 0),
    }
    assert wire.read_victims(b"{}").victims == {}
    assert wire.read_victims(b"null").victims == {}


def test_a_binding_comes_back() -> None:
    assert wire.read_binding_error(b"{}") == ""
    assert wire.read_binding_error(b'{"error": "taken"}') == "taken"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b'{"NodeNames": {}}',
        b'{"NodeNames": [1]}',
        b'{"FailedNodes": {"a": 1}}',
        b'{"Error": 1}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_what_is_no_answer(body: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)):
        wire.read_filter_answer(body, names_count=True)


@pytest.mark.parametrize("body", [b"{}", b'[{"Score": 1.5}]', b'[{"Score": "1"}]', b"[1]"])
def test_what_are_no_scores(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        wire.read_scores(body, 1)


def test_a_score_that_go_could_not_hold_is_no_score() -> None:
    with pytest.raises(ValueError, match=r"."):
        wire.read_scores(b'[{"Host":"a","Score":9223372036854775808}]', 1)
