"""Bodies as Go's encoding/json writes and reads them."""

from __future__ import annotations

import json

import msgspec
import pytest

from stowplan.api import extender_codec as codec
from stowplan.api.extender_protocol import HostPriority, MetaPod, MetaVictims

POD = msgspec.Raw(b'{"metadata":{"name":"p"},"spec":{"unknown":1}}')
NODE = msgspec.Raw(b'{"metadata":{"name":"n"},"status":{"images":[]}}')


def test_nodes_go_out_by_name_or_whole_never_both() -> None:
    names = json.loads(codec.encode_args(POD, names=["a", "b"], nodes=()))
    assert names == {"Pod": json.loads(bytes(POD)), "Nodes": None, "NodeNames": ["a", "b"]}
    whole = json.loads(codec.encode_args(POD, names=None, nodes=[NODE]))
    assert whole["NodeNames"] is None
    assert whole["Nodes"] == {"metadata": {}, "items": [json.loads(bytes(NODE))]}


def test_victims_go_out_by_uid_or_whole() -> None:
    by_uid = json.loads(codec.encode_meta_victims(POD, {"n": (["u1", "u2"], 1)}))
    assert by_uid["NodeNameToVictims"] is None
    assert by_uid["NodeNameToMetaVictims"] == {
        "n": {"Pods": [{"UID": "u1"}, {"UID": "u2"}], "NumPDBViolations": 1}
    }
    whole = json.loads(codec.encode_victims(POD, {"n": ([POD], 0)}))
    assert whole["NodeNameToMetaVictims"] is None
    assert whole["NodeNameToVictims"]["n"]["Pods"] == [json.loads(bytes(POD))]


def test_a_binding_goes_out() -> None:
    assert json.loads(codec.encode_binding("p", "ns", "u", "n")) == {
        "PodName": "p",
        "PodNamespace": "ns",
        "PodUID": "u",
        "Node": "n",
    }


@pytest.mark.parametrize(
    ("body", "names_were_sent", "nodes"),
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
def test_which_nodes_an_answer_keeps(body: object, names_were_sent: bool, nodes: list[str]) -> None:
    answer = codec.decode_filter_result(json.dumps(body).encode(), names_were_sent=names_were_sent)
    assert answer.NodeNames == nodes


def test_why_the_others_are_out() -> None:
    body = {
        "nodeNames": [],
        "failedNodes": {"a": "x"},
        "FAILEDANDUNRESOLVABLENODES": {"b": "y"},
        "Error": "",
        "Unknown": 3,
    }
    answer = codec.decode_filter_result(json.dumps(body).encode(), names_were_sent=True)
    assert (answer.FailedNodes, answer.FailedAndUnresolvableNodes) == ({"a": "x"}, {"b": "y"})
    none = b'{"FailedNodes": null, "FailedAndUnresolvableNodes": null, "Error": null}'
    answer = codec.decode_filter_result(none, names_were_sent=True)
    assert (answer.FailedNodes, answer.FailedAndUnresolvableNodes) == ({}, {})


def test_an_error_beats_everything() -> None:
    body = b'{"NodeNames":{"a":1},"error":"no"}'
    assert codec.decode_filter_result(body, names_were_sent=True).Error == "no"


def test_scores_come_back() -> None:
    body = b'[{"Host":"a","Score":7},{"host":"b","score":-1},{"Host":"a","Score":1},{"Host":"c"}]'
    assert codec.decode_priorities(body) == [
        HostPriority("a", 7),
        HostPriority("b", -1),
        HostPriority("a", 1),
        HostPriority("c", 0),
    ]
    assert codec.decode_priorities(b"null") == []
    assert codec.decode_priorities(b"[null]") == [HostPriority("", 0)]


def test_victims_come_back_by_uid() -> None:
    body = {
        "NodeNameToMetaVictims": {
            "Node-A": {"Pods": [{"UID": "u1"}, {"uid": "u2"}], "NumPDBViolations": 2},
            "b": {"Pods": None},
            "c": None,
        }
    }
    result = codec.decode_preemption_result(json.dumps(body).encode())
    assert result.NodeNameToMetaVictims == {
        "Node-A": MetaVictims([MetaPod("u1"), MetaPod("u2")], 2),
        "b": MetaVictims([], 0),
        "c": MetaVictims([], 0),
    }
    for empty in (b"{}", b"null", b'{"NodeNameToMetaVictims": null}'):
        assert codec.decode_preemption_result(empty).NodeNameToMetaVictims == {}


def test_a_binding_comes_back() -> None:
    assert codec.decode_binding_result(b"{}").Error == ""
    assert codec.decode_binding_result(b'{"error": "taken"}').Error == "taken"


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
        codec.decode_filter_result(body, names_were_sent=True)


@pytest.mark.parametrize("body", [b"{}", b'[{"Score": 1.5}]', b'[{"Score": "1"}]', b"[1]"])
def test_what_are_no_scores(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        codec.decode_priorities(body)


def test_a_score_that_go_could_not_hold_is_no_score() -> None:
    with pytest.raises(ValueError, match=r"."):
        codec.decode_priorities(b'[{"Host":"a","Score":9223372036854775808}]')
