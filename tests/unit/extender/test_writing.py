"""Answers as kube-scheduler reads them, and answers that it must never get to see."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest

from stowplan.extender import (
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionResult,
    HostPriority,
    MetaPod,
    MetaVictims,
)
from stowplan.extender.reading import ReceivedArgs, read_args
from stowplan.extender.writing import (
    BadAnswer,
    everything_fits,
    failed_filter,
    write_binding_result,
    write_filter_result,
    write_preemption_result,
    write_priorities,
)
from tests.unit.extender.test_reading import BODIES, body, content


def asked_by_name(*names: str) -> ReceivedArgs:
    return read_args(json.dumps({"Pod": {}, "NodeNames": names}).encode())


def asked_with_nodes() -> ReceivedArgs:
    return read_args(body("args nodes"))


def test_a_host_priority_shows_itself_as_in_the_original() -> None:
    assert repr(HostPriority("n1", 3)) == "n1=3"
    assert repr([HostPriority(Host="n1", Score=3)]) == "[n1=3]"
    assert HostPriority("n1", 3) == HostPriority("n1", 3)


def test_a_host_priority_is_a_dataclass_to_whoever_asks() -> None:
    priority = HostPriority("n1", 3)
    assert dataclasses.is_dataclass(priority)
    assert [field.name for field in dataclasses.fields(HostPriority)] == ["Host", "Score"]
    assert dataclasses.asdict(priority) == {"Host": "n1", "Score": 3}
    assert dataclasses.replace(priority, Score=4) == HostPriority("n1", 4)
    priority.Score += 1
    assert (copy.deepcopy(priority), pickle.loads(pickle.dumps(priority))) == (priority, priority)


def test_results_with_names_are_byte_for_byte_what_go_writes() -> None:
    result = ExtenderFilterResult(
        NodeNames=["n1", "n2"],
        FailedNodes={"n3": "too small"},
        FailedAndUnresolvableNodes={"n4": "of the wrong kind"},
    )
    written = write_filter_result(asked_by_name("n1", "n2", "n3", "n4"), result)
    assert written.decode() == BODIES["filter result names"]


def test_results_with_nodes_are_byte_for_byte_what_go_writes() -> None:
    for result in (
        ExtenderFilterResult(NodeNames=["n2"]),
        ExtenderFilterResult(content("args nodes")["Nodes"]["items"][1:]),
    ):
        written = write_filter_result(asked_with_nodes(), result)
        assert json.loads(written) == content("filter result nodes")
    by_name = write_filter_result(asked_with_nodes(), ExtenderFilterResult(NodeNames=["n2"]))
    assert by_name.decode() == BODIES["filter result nodes"]


def test_errors_are_byte_for_byte_what_go_writes() -> None:
    assert failed_filter("broken").decode() == BODIES["filter result error"]
    result = ExtenderFilterResult(NodeNames=["n1"], Error="broken")
    assert (
        write_filter_result(asked_by_name("n1"), result).decode() == BODIES["filter result error"]
    )


def test_other_answers_are_byte_for_byte_what_go_writes() -> None:
    priorities = [HostPriority("n1", 0), HostPriority("n2", 10)]
    assert write_priorities(priorities) == (body("priorities"), 0)
    victims = {"n1": MetaVictims([MetaPod("uid-b")], 2)}
    assert write_preemption_result(ExtenderPreemptionResult(victims)) == body("preemption result")
    assert write_binding_result(ExtenderBindingResult()) == body("binding result")
    error = ExtenderBindingResult("no such node")
    assert write_binding_result(error) == body("binding result error")


def test_all_nodes_come_back_as_they_were_sent() -> None:
    args = asked_with_nodes()
    sent = BODIES["args nodes"]
    items = sent[sent.index('"items":') : sent.rindex(',"NodeNames"')]
    assert items.encode() in everything_fits(args)
    _ = args.Nodes  # being looked at changes nothing
    assert items.encode() in write_filter_result(args, ExtenderFilterResult(NodeNames=["n1", "n2"]))


def test_nodes_come_in_the_order_of_the_answer() -> None:
    result = ExtenderFilterResult(NodeNames=["n2", "n1"])
    written = json.loads(write_filter_result(asked_with_nodes(), result))
    assert [node["metadata"]["name"] for node in written["Nodes"]["items"]] == ["n2", "n1"]


def test_a_node_that_an_algorithm_changed_is_sent_changed() -> None:
    args = asked_with_nodes()
    assert args.Nodes is not None
    args.Nodes[0]["metadata"]["labels"]["seen"] = "yes"
    written = json.loads(write_filter_result(args, ExtenderFilterResult(args.Nodes)))
    assert written["Nodes"]["items"][0]["metadata"]["labels"]["seen"] == "yes"


def test_nodes_may_be_a_node_list() -> None:
    node_list: Any = content("args nodes")["Nodes"]
    written = json.loads(write_filter_result(asked_with_nodes(), ExtenderFilterResult(node_list)))
    assert written["Nodes"] == node_list


def test_nodes_in_answer_to_names_become_names() -> None:
    result = ExtenderFilterResult([{"metadata": {"name": "n2"}}])
    written = json.loads(write_filter_result(asked_by_name("n1", "n2"), result))
    assert (written["Nodes"], written["NodeNames"]) == (None, ["n2"])


def test_the_list_of_the_request_may_be_made_shorter_in_place() -> None:
    args = asked_by_name("n1", "n2")
    args.NodeNames.remove("n1")
    result = ExtenderFilterResult(NodeNames=args.NodeNames)
    assert json.loads(write_filter_result(args, result))["NodeNames"] == ["n2"]
    with_nodes = asked_with_nodes()
    with_nodes.NodeNames.remove("n1")
    written = write_filter_result(with_nodes, ExtenderFilterResult(NodeNames=with_nodes.NodeNames))
    assert json.loads(written) == content("filter result nodes")


def test_who_sends_both_gets_both() -> None:
    sent = content("args nodes") | {"NodeNames": ["n1", "n2"]}
    args = read_args(json.dumps(sent).encode())
    written = json.loads(write_filter_result(args, ExtenderFilterResult(NodeNames=["n2"])))
    assert written["NodeNames"] == ["n2"]
    assert written["Nodes"] == content("filter result nodes")["Nodes"]


@pytest.mark.parametrize(
    ("score", "sent", "clamped"),
    [
        (0, 0, 0),
        (10, 10, 0),
        (11, 10, 1),
        (-1, 0, 1),
        (10**400, 10, 1),
        (-(10**400), 0, 1),
        (7.9, 7, 0),
        (10.0, 10, 0),
        (10.5, 10, 1),
        (-0.5, 0, 1),
        (math.inf, 10, 1),
        (-math.inf, 0, 1),
        (math.nan, 0, 1),
        (True, 1, 0),
        (np.int64(12), 10, 1),
        (np.float64(3.5), 3, 0),
    ],
)
def test_scores_are_whole_numbers_from_0_to_10(score: Any, sent: int, clamped: int) -> None:
    written, count = write_priorities([HostPriority("n1", score), HostPriority("n2", 5)])
    assert written.decode() == f'[{{"Host":"n1","Score":{sent}}},{{"Host":"n2","Score":5}}]'
    assert count == clamped


def test_what_looks_like_a_host_priority_will_do() -> None:
    @dataclasses.dataclass
    class Own:
        Score: float
        Host: str
        why: str

    written, clamped = write_priorities([Own(3.5, "n1", "because"), Own(12, "n2", "")])  # type: ignore[list-item]  # wrong on purpose
    assert written == b'[{"Host":"n1","Score":3},{"Host":"n2","Score":10}]'
    assert clamped == 1


@pytest.mark.parametrize("names", [["a"], ["a", "b"], ['"', "a"], ["\\n"], ["\n", ""], ["é", "x"]])
@pytest.mark.parametrize("score", [0, 7, 10])
def test_one_score_for_all_is_written_like_any_other(names: list[str], score: int) -> None:
    body, clamped = write_priorities([HostPriority(name, score) for name in names])
    assert json.loads(body) == [{"Host": name, "Score": score} for name in names]
    assert clamped == 0
    mixed, _ = write_priorities(
        [*(HostPriority(name, score) for name in names), HostPriority("", 1)]
    )
    assert mixed == body[:-1] + b',{"Host":"","Score":1}]'


def test_scores_that_are_equal_but_no_integers() -> None:
    scores: list[Any] = [1, True, 1.0]
    body, clamped = write_priorities([HostPriority("a", score) for score in scores])
    assert body == b'[{"Host":"a","Score":1},{"Host":"a","Score":1},{"Host":"a","Score":1}]'
    assert clamped == 0


def test_a_result_that_takes_no_node_away_has_the_bytes_of_the_request() -> None:
    names = [f"node-\\u00e9-{number:04}" for number in range(200)]
    text = '{"Pod":{},"Nodes":null,"NodeNames":["' + '","'.join(names) + '"]}'
    args = read_args(text.encode())
    assert args.NodeNames[3] == "node-é-0003"
    same = write_filter_result(args, ExtenderFilterResult(NodeNames=list(args.NodeNames)))
    assert f'"NodeNames":["{names[0]}","{names[1]}"'.encode() in same
    fewer = ExtenderFilterResult(NodeNames=args.NodeNames[:-1])
    assert json.loads(write_filter_result(args, fewer))["NodeNames"] == args.NodeNames[:-1]
    args.NodeNames.reverse()
    turned = write_filter_result(args, ExtenderFilterResult(NodeNames=args.NodeNames))
    assert json.loads(turned)["NodeNames"][0] == "node-é-0199"


def test_no_priorities() -> None:
    assert write_priorities([]) == (b"[]", 0)


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (None, "the answer is None, not an ExtenderFilterResult"),
        ({"NodeNames": []}, "the answer is a dict, not an ExtenderFilterResult"),
        (ExtenderFilterResult(NodeNames=["n9"]), "NodeNames has 'n9', which was not asked about"),
        (
            ExtenderFilterResult(NodeNames=[1]),  # type: ignore[list-item]  # wrong on purpose
            "NodeNames has 1, which was not asked about",
        ),
        (
            ExtenderFilterResult(NodeNames=[["n1"]]),  # type: ignore[list-item]  # wrong on purpose
            "NodeNames: unhashable type: 'list'",
        ),
        (
            ExtenderFilterResult(7),  # type: ignore[arg-type]  # wrong on purpose
            "Nodes is a int, not a list of nodes",
        ),
        (ExtenderFilterResult([{}]), "Nodes has a node without metadata.name"),
        (
            ExtenderFilterResult(FailedNodes=["n1"]),  # type: ignore[arg-type]  # wrong on purpose
            "FailedNodes is a list, not a dict of reasons by node",
        ),
    ],
)
def test_a_filter_result_that_is_none(result: Any, problem: str) -> None:
    with pytest.raises(BadAnswer) as bad:
        write_filter_result(asked_by_name("n1"), result)
    assert str(bad.value) == problem


@pytest.mark.parametrize("nodes", [[{"a": object()}], [{1: LOOP}], LOOP])
def test_nodes_that_cannot_be_json(nodes: Any) -> None:
    with pytest.raises(BadAnswer, match=r"^Nodes cannot be JSON: "):
        write_filter_result(asked_with_nodes(), ExtenderFilterResult(nodes))


def test_odd_values_that_have_a_meaning() -> None:
    result: Any = ExtenderFilterResult(
        None,
        None,  # type: ignore[arg-type]  # wrong on purpose
        {"n1": ValueError("too small")},  # type: ignore[dict-item]  # wrong on purpose
        None,  # type: ignore[arg-type]  # wrong on purpose
        None,  # type: ignore[arg-type]  # wrong on purpose
    )
    written = json.loads(write_filter_result(asked_by_name("n1"), result))
    assert written == {
        "Nodes": None,
        "NodeNames": [],
        "FailedNodes": {"n1": "too small"},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    assert json.loads(failed_filter("a\ud800b"))["Error"] == "a?b"


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (None, "the answer is None, not a list of HostPriority"),
        ([("n1", 1)], "the answer has an item that is not a HostPriority"),
        ([HostPriority("n1", "3")], "the Score of 'n1' is a str"),  # type: ignore[arg-type]  # wrong on purpose
        ([HostPriority("n1", None)], "the Score of 'n1' is None"),  # type: ignore[arg-type]  # wrong on purpose
        ([HostPriority(1, 1)], "a Host is not text"),  # type: ignore[arg-type]  # wrong on purpose
    ],
)
def test_priorities_that_are_none(result: Any, problem: str) -> None:
    with pytest.raises(BadAnswer) as bad:
        write_priorities(result)
    assert str(bad.value) == problem


@pytest.mark.parametrize("result", [None, {}, ExtenderPreemptionResult({"n1": {}})])  # type: ignore[dict-item]  # wrong on purpose
def test_preemption_results_that_are_none(result: Any) -> None:
    with pytest.raises(BadAnswer):
        write_preemption_result(result)


def test_binding_results_that_are_none() -> None:
    with pytest.raises(BadAnswer):
        write_binding_result(None)  # type: ignore[arg-type]  # wrong on purpose
