"""Names that are known from the request before: the same is read as without, or nothing is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.extender import reading
from stowplan.extender.known_names import _LONGEST, _MOST_LISTS, KnownNames
from stowplan.extender.reading import BadBody, read_args

NAMES = [f"node-{number:020}" for number in range(60)]
POD = {"metadata": {"name": "a", "namespace": "shop"}}


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_known", KnownNames())


def body_of(names: list[str] = NAMES, pod: Any = POD, **more: Any) -> bytes:
    """As Go writes it."""
    args = {"Pod": pod, "Nodes": None, "NodeNames": names} | more
    return json.dumps(args, separators=(",", ":"), ensure_ascii=False).encode()


def read(body: bytes) -> Any:
    """All that is read of a body, or why nothing is."""
    try:
        args = read_args(body)
        return args.Pod, args.pod_name, args.NodeNames, args.Nodes, args.asked, args.has_nodes
    except BadBody as bad:
        return str(bad)


def read_alone(body: bytes) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "_known", KnownNames())
        return read(body)


def is_known(body: bytes) -> bool:
    return reading._known.find(body) is not None


def test_the_next_request_finds_them() -> None:
    assert not is_known(body_of())
    first = read_args(body_of())
    assert is_known(body_of())
    other = {"metadata": {"name": "b", "namespace": "shop", "labels": {"NodeNames": "[]"}}}
    again = read_args(body_of(pod=other))
    assert (again.pod_name, again.Pod) == ("b", other)
    assert again.NodeNames == first.NodeNames == NAMES
    assert again.NodeNames[0] is first.NodeNames[0]
    assert bytes(again.encoded_names or b"") == json.dumps(NAMES, separators=(",", ":")).encode()


def test_what_an_algorithm_does_to_its_list_is_its_own_affair() -> None:
    for _ in range(3):
        names = read_args(body_of()).NodeNames
        assert names == NAMES
        names.clear()


def test_in_another_order_they_are_others() -> None:
    read_args(body_of())
    assert read_args(body_of(NAMES[1:] + NAMES[:1])).NodeNames == NAMES[1:] + NAMES[:1]
    assert read_args(body_of([*NAMES[1:], "x", NAMES[0]])).NodeNames[-2:] == ["x", NAMES[0]]
    # The end of a longer list is no list.
    assert read_args(body_of(["first", *NAMES])).NodeNames == ["first", *NAMES]


@pytest.mark.parametrize(
    "end",
    [
        b"",
        b"}",
        b'{"Pod":',
        b'{"Pod":{}',
        b'{"Pod":{}},',
        b'{"Pod":nonsense',
        b'{"Pod":5',
        b'{"pod":{}',
        b'{"Pod":{},"Pod":{"metadata":{"name":"second"}}',
        b'{"Pod":{},"NodeNames":["x"]',
        b'{"Pod":{},"NodeNames":5',
        b'{"Pod":{},"nodenames":["x"]',
        b'{"Pod":{},"Nodes":{"items":[]}',
        b'{"Pod":{},"Nodes":5',
        b'{"Pod":{"metadata":{"name":"\xff"}}',
        b'{"Pod":{"metadata":5}',
        b'["Pod",{}',
        b'{"x":{"Pod":{}',
        b'{"x":"',
        b'{"Pod":' + b"[" * 5000,
    ],
)
def test_whatever_is_before_them(end: bytes) -> None:
    whole = body_of()
    tail = whole[whole.index(b',"Nodes":null') :]
    read_args(whole)
    assert is_known(end + tail)
    assert read(end + tail) == read_alone(end + tail)


@pytest.mark.parametrize(
    "body",
    [
        body_of(["few"]),
        body_of(["n" * _LONGEST, "m"]),
        body_of([*NAMES, "a]"]),
        body_of([*NAMES, "a", "b]c"]),
        body_of(x=1),
        body_of(x=["y"]),
        body_of(Pod2=POD),
        body_of()[:-1] + b',"Pod":{"metadata":{"name":"second"}},"x":[]}',
        body_of()[:-1] + b" }",
        body_of().replace(b",", b", "),
        json.dumps({"NodeNames": NAMES, "Pod": POD}).encode(),
        json.dumps({"pod": POD, "nodenames": NAMES}).encode(),
        body_of().replace(b'"Nodes":null,', b""),
        body_of() + b" ",
    ],
)
def test_bodies_that_are_not_as_go_writes_them_are_not_kept(body: bytes) -> None:
    alone = read_alone(body)
    assert read(body) == alone
    assert not is_known(body)
    assert read(body) == alone


def test_little_is_kept() -> None:
    bodies = [body_of([*NAMES, f"last-{number:060}"]) for number in range(3 * _MOST_LISTS)]
    for body in bodies:
        read_args(body)
        read_args(bodies[0])
    assert [is_known(body) for body in bodies].count(True) == _MOST_LISTS
    assert is_known(bodies[0])  # it was asked for all the time
    assert is_known(bodies[-1])


names = st.lists(
    st.text(st.sampled_from('ab]["\\,{}é\n:-'), max_size=3) | st.just("node" * 400), max_size=4
)
keys = st.sampled_from(["Pod", "Nodes", "NodeNames", "nodenames", "x"])
values: st.SearchStrategy[Any] = (
    st.sampled_from([None, 5, {}, [], {"metadata": {"name": "p"}}, {"items": []}]) | names
)
objects = st.lists(st.tuples(keys, values), max_size=5)


def written(members: list[tuple[str, Any]]) -> bytes:
    """With all its keys, also those that are there twice."""
    texts = [
        f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}" for key, value in members
    ]
    return ("{" + ",".join(texts) + "}").encode()


@given(st.lists(st.tuples(objects, names), min_size=2, max_size=6))
def test_the_same_is_read_with_and_without_what_is_known(
    requests: list[tuple[list[tuple[str, Any]], list[str]]],
) -> None:
    for members, last in requests:
        for body in (
            written([("Pod", POD), ("Nodes", None), ("NodeNames", last)]),
            written([*members, ("Nodes", None), ("NodeNames", last)]),
            written([("Pod", POD), ("Nodes", None), ("NodeNames", last), *members]),
        ):
            for _ in range(2):
                assert read(body) == read_alone(body)
