"""Bodies as kube-scheduler sends them, in any case, and bodies that nobody should send.

`tests/data/extender_reference.json` was printed by `go run . extender` in tools/reference from
kube-scheduler's own types.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from stowplan.extender import ExtenderArgs, ExtenderBindingArgs, MetaPod, MetaVictims
from stowplan.extender.reading import (
    BadBody,
    read_args,
    read_binding_args,
    read_preemption_args,
)

DATA = Path(__file__).parents[2] / "data" / "extender_reference.json"
BODIES = {case["name"]: case["text"] for case in json.loads(DATA.read_text())["bodies"]}


def body(name: str) -> bytes:
    return str(BODIES[name]).encode()


def content(name: str) -> Any:
    return json.loads(BODIES[name])


def test_names_as_go_sends_them() -> None:
    args = read_args(body("args names"))
    assert isinstance(args, ExtenderArgs)
    assert args.NodeNames == ["n1", "n2"]
    assert args.Nodes is None
    assert args.Pod == content("args names")["Pod"]
    assert (args.pod_namespace, args.pod_name) == ("shop", "a")


def test_whole_nodes_as_go_sends_them() -> None:
    args = read_args(body("args nodes"))
    assert args.NodeNames == ["n1", "n2"]
    assert args.Nodes == content("args nodes")["Nodes"]["items"]
    assert args.Nodes is not None
    assert args.Nodes[0]["metadata"]["labels"] == {"<zone>": "a&b"}


def test_no_nodes_as_go_sends_them() -> None:
    assert read_args(body("args no names")).NodeNames == []
    without = read_args(body("args no nodes"))
    assert (without.Nodes, without.NodeNames) == ([], [])


def test_received_arguments_are_a_dataclass_like_those_that_are_made_by_hand() -> None:
    received = read_args(body("args names"))
    assert dataclasses.asdict(received) == content("args names")
    by_hand = ExtenderArgs(Nodes=None, Pod=received.Pod, NodeNames=["n1", "n2"])
    assert dataclasses.asdict(by_hand) == dataclasses.asdict(received)
    assert repr(received).endswith(repr(by_hand).removeprefix("ExtenderArgs"))
    with pytest.raises(AttributeError):
        _ = received.Elsewhere


def test_what_an_algorithm_changes_stays_changed() -> None:
    args = read_args(body("args names"))
    args.NodeNames.remove("n1")
    args.Pod["metadata"]["name"] = "other"
    assert args.NodeNames == ["n2"]
    assert args.Pod["metadata"]["name"] == "other"


@pytest.mark.parametrize("name", ["args names", "args nodes"])
@pytest.mark.parametrize("change", [str.lower, str.upper, str.swapcase])
def test_keys_in_any_case(name: str, change: Any) -> None:
    sent = {change(key): value for key, value in content(name).items()}
    nodes = sent[change("Nodes")]
    if nodes is not None:
        sent[change("Nodes")] = {change(key): value for key, value in nodes.items()}
    assert dataclasses.asdict(read_args(json.dumps(sent).encode())) == dataclasses.asdict(
        read_args(body(name))
    )


def test_one_key_in_another_case_than_the_rest() -> None:
    args = read_args(b'{"Pod":{"metadata":{"name":"a"}},"nodeNames":["n1"]}')
    assert (args.pod_name, args.pod_namespace, args.NodeNames) == ("a", "", ["n1"])


def test_nodes_as_a_bare_list() -> None:
    args = read_args(b'{"Pod":{},"Nodes":[{"metadata":{"name":"n1"}}],"NodeNames":null}')
    assert args.NodeNames == ["n1"]
    assert args.Nodes == [{"metadata": {"name": "n1"}}]


def test_preemption_with_whole_pods() -> None:
    args = read_preemption_args(body("preemption args whole"))
    sent = content("preemption args whole")
    assert args.Pod == sent["Pod"]
    assert args.NodeNameToVictims is not None
    victims = args.NodeNameToVictims["n1"]
    assert (victims.Pods, victims.NumPDBViolations) == (sent["NodeNameToVictims"]["n1"]["Pods"], 1)
    assert args.NodeNameToMetaVictims == {
        "n1": MetaVictims([MetaPod("uid-b"), MetaPod("uid-c")], 1),
        "n2": MetaVictims(),
    }


def test_preemption_with_uids() -> None:
    expected = {
        "n1": MetaVictims([MetaPod("uid-b")], 2),
        "n2": MetaVictims(),
        "n3": MetaVictims(),
    }
    sent = body("preemption args meta")
    for text in (sent, sent.replace(b"UID", b"uid").replace(b"NodeName", b"nodename")):
        args = read_preemption_args(text)
        assert args.NodeNameToVictims is None
        assert args.NodeNameToMetaVictims == expected


def test_binding() -> None:
    expected = ExtenderBindingArgs("a", "shop", "uid-a", "n1")
    assert read_binding_args(body("binding args")) == expected
    assert read_binding_args(body("binding args").replace(b"Pod", b"pOD")) == expected


POD = '"Pod":{"metadata":{"name":"a"}}'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Input data was truncated"),
        ("{", "Input data was truncated"),
        ("[]", "Expected `object`, got `array`"),
        ("null", "Expected `object`, got `null`"),
        ('"text"', "Expected `object`, got `str`"),
        ("{}", "Pod is missing"),
        (BODIES["args nothing"], "Pod is missing"),
        (f"{{{POD}}}", "Nodes and NodeNames are both missing"),
        (f'{{{POD},"NodeNames":"n1"}}', "NodeNames: Expected `array`, got `str`"),
        (f'{{{POD},"NodeNames":[1]}}', "NodeNames: Expected `str`, got `int` - at `$[0]`"),
        (f'{{{POD},"Nodes":7}}', "Nodes: Expected `object`, got `int`"),
        (f'{{{POD},"Nodes":{{"items":{{}}}}}}', "Nodes.items: Expected `array`, got `object`"),
        ('{"Pod":[],"NodeNames":[]}', "Pod: Expected `object`, got `array`"),
        (
            '{"Pod":{"metadata":{"name":1}},"NodeNames":[]}',
            "Pod: Expected `str | null`, got `int` - at `$.metadata.name`",
        ),
        (f'{{{POD},"NodeNames":{"[" * 100_000}', "nested too deeply"),
    ],
)
def test_what_is_wrong_is_told(text: str, problem: str) -> None:
    with pytest.raises(BadBody) as bad:
        read_args(text.encode())
    assert str(bad.value) == problem


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ("null", "Nodes.items[1]: Expected `object`, got `null`"),
        ("{}", "Nodes.items[1].metadata.name is missing"),
        ('{"metadata":{"name":""}}', "Nodes.items[1].metadata.name is missing"),
        ('{"metadata":3}', "Nodes.items[1]: Expected `object | null`, got `int` - at `$.metadata`"),
    ],
)
def test_what_is_wrong_with_a_node_is_told(item: str, problem: str) -> None:
    text = f'{{{POD},"Nodes":{{"items":[{{"metadata":{{"name":"n1"}}}},{item}]}}}}'
    with pytest.raises(BadBody) as bad:
        _ = read_args(text.encode()).NodeNames
    assert str(bad.value) == problem


@pytest.mark.parametrize("read", [read_args, read_preemption_args, read_binding_args])
def test_bytes_that_are_no_text(read: Any) -> None:
    for junk in (b"\xff", b"\xc3", b"\xed\xa0\x80", b" " * (1 << 20) + b"\xc3"):
        with pytest.raises(BadBody, match=r"^it is not UTF-8: "):
            read(b'{"Pod":{"metadata":{"name":"a"},"spec":"' + junk + b'"},"NodeNames":["n1"]}')


def test_a_letter_on_the_border_of_two_pieces_is_text() -> None:
    start = b'{"Pod":{"spec":"'
    padding = b" " * ((1 << 20) - len(start) - 1)
    args = read_args(start + padding + "ü".encode() + b'"},"NodeNames":["n1"]}')
    assert args.Pod["spec"].endswith("ü")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "Pod is missing"),
        (f"{{{POD}}}", "NodeNameToVictims and NodeNameToMetaVictims are both missing"),
        (
            f'{{{POD},"NodeNameToVictims":{{"n":{{"Pods":[{{}}]}}}}}}',
            "NodeNameToVictims['n'].Pods: a pod without metadata.uid",
        ),
        (
            f'{{{POD},"NodeNameToMetaVictims":{{"n":{{"Pods":[{{}}]}}}}}}',
            "NodeNameToMetaVictims['n'].Pods.UID is missing",
        ),
        (
            f'{{{POD},"NodeNameToMetaVictims":{{"n":{{"NumPDBViolations":"1"}}}}}}',
            "NodeNameToMetaVictims['n']: Expected `int`, got `str`",
        ),
        (
            f'{{{POD},"NodeNameToMetaVictims":[]}}',
            "NodeNameToMetaVictims: Expected `object`, got `array`",
        ),
    ],
)
def test_what_is_wrong_with_a_preemption_is_told(text: str, problem: str) -> None:
    with pytest.raises(BadBody) as bad:
        read_preemption_args(text.encode())
    assert str(bad.value) == problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "PodName is missing"),
        ('{"PodName":"a","PodNamespace":"b","PodUID":"c"}', "Node is missing"),
        (
            '{"PodName":"a","PodNamespace":"b","PodUID":"c","Node":1}',
            "Node: Expected `str`, got `int`",
        ),
    ],
)
def test_what_is_wrong_with_a_binding_is_told(text: str, problem: str) -> None:
    with pytest.raises(BadBody) as bad:
        read_binding_args(text.encode())
    assert str(bad.value) == problem
