"""What a node says about a pod, and the edits that change it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.objects import Node
from stowplan.api.pod_names import PodName, parse_pod_name
from stowplan.errors import ConfigError, NotFound
from stowplan.plugins.static_placement.labels import Form, PinLabels
from stowplan.static.pins import (
    Wish,
    chosen_scheduler,
    edit_for,
    joined,
    named_node,
    nodes_with_pins,
    pins_for,
    schedulers_with_keys,
    wishes_for_only,
)
from stowplan.testing import node, pod

TEST = PinLabels("test")
WEB = PodName("default", "web-0")
LABEL, OLDER = "rf.scheduler.test.default/web-0", "rf.scheduler.test/web-0"
LIST = "rf.scheduler.test.default/pods"
LONG = "a" * 64


def after(before: Node, patch: dict[str, Any]) -> Node:
    """The node with a merge patch applied."""
    changes = {}
    for kind in ("labels", "annotations"):
        merged = {**(getattr(before.metadata, kind) or {}), **patch["metadata"].get(kind, {})}
        changes[kind] = {key: value for key, value in merged.items() if value is not None}
    metadata = msgspec.structs.replace(before.metadata, **changes)
    return msgspec.structs.replace(before, metadata=metadata)


@pytest.mark.parametrize(
    ("typed", "flag", "expected"),
    [
        ("web-0", None, PodName("context", "web-0")),
        ("web-0", "shop", PodName("shop", "web-0")),
        ("shop/web-0", None, PodName("shop", "web-0")),
        ("shop/web-0", "shop", PodName("shop", "web-0")),
        ("web.example-0", "", PodName("context", "web.example-0")),
    ],
)
def test_pods_by_name(typed: str, flag: str | None, expected: PodName) -> None:
    assert parse_pod_name(typed, flag, "context") == expected


@pytest.mark.parametrize(
    ("typed", "flag", "complaint"),
    [
        ("shop/web-0", "other", "another namespace than --namespace 'other'"),
        ("", None, "'' cannot be the name of a pod"),
        ("shop/", None, "'' cannot be the name of a pod"),
        ("/web-0", None, "'' cannot be the name of a namespace"),
        ("a/b/web-0", None, "'a/b' cannot be the name of a namespace"),
        ("a.b/web-0", None, "'a.b' cannot be the name of a namespace"),
        ("web_0", None, "'web_0' cannot be the name of a pod"),
        ("web-0\n", None, "cannot be the name of a pod"),
        ("\udcff", None, "cannot be the name of a pod"),
        ("..", None, "'..' cannot be the name of a pod"),
        ("a" * 254, None, "(at most 253 characters)"),
        ("web-0", "n" * 64, "(at most 63 characters)"),
    ],
)
def test_what_names_no_pod(typed: str, flag: str | None, complaint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_pod_name(typed, flag, "default")
    assert complaint in str(refused.value)


@given(st.text())
def test_whatever_is_typed_is_a_pod_or_a_complaint(text: str) -> None:
    complaint, found = "", None
    try:
        found = parse_pod_name(text, None, "default")
    except ConfigError as refused:
        complaint = str(refused)
    assert complaint.isprintable()
    assert complaint or text in (found.name if found else "", str(found))


def test_nodes_by_name() -> None:
    nodes = [node("worker-1"), node("worker-2"), node("gpu")]
    assert named_node(nodes, "gpu") is nodes[2]
    with pytest.raises(NotFound, match="there is no node 'workr-2'; did you mean worker-2 or"):
        named_node(nodes, "workr-2")
    with pytest.raises(NotFound, match=r"there is no node 'zzz'$"):
        named_node(nodes, "zzz")
    with pytest.raises(NotFound, match="the cluster has no nodes"):
        named_node([], "worker-1")
    with pytest.raises(ConfigError, match="'a b' cannot be the name of a node"):
        named_node(nodes, "a b")


def test_whose_pins_are_meant() -> None:
    assert chosen_scheduler(None, None) == "rfcustom"
    assert chosen_scheduler(None, pod(scheduler_name="test")) == "test"
    assert chosen_scheduler(None, pod(scheduler_name="")) == "default-scheduler"
    assert chosen_scheduler("mine", pod(scheduler_name="test")) == "mine"


def test_a_pin_is_an_empty_label() -> None:
    edit = edit_for(node("n"), TEST, WEB, Wish.PINNED)
    assert edit is not None
    assert edit.as_patch() == {"metadata": {"labels": {LABEL: ""}}}
    assert not edit.needs_same_version, "nobody else's pin is in that key"
    assert [(pin.form, pin.key) for pin in edit.added] == [(Form.LABEL, LABEL)]


def test_a_pin_that_is_there_stays_as_it_is() -> None:
    assert edit_for(node("n", labels={LABEL: "whatever"}), TEST, WEB, Wish.PINNED) is None
    assert edit_for(node("n", annotations={LIST: "a web-0"}), TEST, WEB, Wish.PINNED) is None


def test_the_older_label_gets_a_newer_one_beside_it() -> None:
    older = node("n", labels={OLDER: "x"})
    beside = edit_for(older, TEST, WEB, Wish.PINNED)
    assert beside is not None
    assert beside.as_patch() == {"metadata": {"labels": {LABEL: ""}}}
    instead = edit_for(older, TEST, WEB, Wish.PINNED_ANEW)
    assert instead is not None
    assert instead.as_patch() == {"metadata": {"labels": {LABEL: "", OLDER: None}}}


def test_a_long_name_goes_into_the_annotation() -> None:
    long = PodName("default", LONG)
    first = edit_for(node("n"), TEST, long, Wish.PINNED)
    assert first is not None
    assert first.as_patch() == {"metadata": {"annotations": {LIST: LONG}}}
    assert first.needs_same_version
    more = edit_for(node("n", annotations={LIST: "b, c\n"}), TEST, long, Wish.PINNED)
    assert more is not None
    assert more.annotations == {LIST: f"b,c,{LONG}"}


def test_unpinning_removes_every_form() -> None:
    full = node("n", labels={LABEL: "", OLDER: ""}, annotations={LIST: "a,web-0 b", "x": "y"})
    edit = edit_for(full, TEST, WEB, Wish.UNPINNED)
    assert edit is not None
    assert edit.labels == {LABEL: None, OLDER: None}
    assert edit.annotations == {LIST: "a,b"}
    assert {pin.form for pin in edit.removed} == set(Form)
    alone = edit_for(node("n", annotations={LIST: "web-0"}), TEST, WEB, Wish.UNPINNED)
    assert alone is not None
    assert alone.annotations == {LIST: None}, "an empty list is no list"


def test_pins_of_others_are_none_of_its_business() -> None:
    others = {
        "rf.scheduler.test.shop/web-0": "",
        "rf.scheduler.test.default/web-1": "",
        "rf.scheduler.other.default/web-0": "",
        "rf.scheduler.other/web-0": "",
        "web-0": "",
    }
    assert pins_for(node("n", labels=others), TEST, WEB) == ()
    assert edit_for(node("n", labels=others), TEST, WEB, Wish.UNPINNED) is None


def test_only_pins_the_target_first() -> None:
    nodes = [node("a", labels={LABEL: ""}), node("b"), node("c", labels={OLDER: ""})]
    wishes = wishes_for_only(nodes, nodes[1])
    assert [(each.name, wish) for each, wish in wishes] == [
        ("b", Wish.PINNED_ANEW),
        ("a", Wish.UNPINNED),
        ("c", Wish.UNPINNED),
    ]
    assert list(nodes_with_pins(nodes, TEST, WEB)) == ["a", "c"]


NAMES = st.sampled_from(["web-0", "web-1", "db", LONG])
KEYS = st.sampled_from(
    [
        *(f"rf.scheduler.{stem}/{name}" for stem in ("test", "test.default", "test.shop", "other")
          for name in ("web-0", "web-1", "pods")),
        "zone",
    ]
)  # fmt: skip
LISTS = st.dictionaries(
    st.sampled_from([LIST, "rf.scheduler.test.shop/pods", "note"]),
    st.lists(NAMES, max_size=4).map(", ".join),
)


@given(
    labels=st.dictionaries(KEYS, st.just("")),
    lists=LISTS,
    name=NAMES,
    wish=st.sampled_from(Wish),
)
def test_an_edit_does_what_was_wished_and_nothing_else(
    labels: dict[str, str], lists: dict[str, str], name: str, wish: Wish
) -> None:
    before = node("n", labels=labels, annotations=lists)
    target = PodName("default", name)
    edit = edit_for(before, TEST, target, wish)
    now = before if edit is None else after(before, edit.as_patch())

    assert edit_for(now, TEST, target, wish) is None, "once is enough"
    forms = [pin.form for pin in pins_for(now, TEST, target)]
    assert bool(forms) == (wish is not Wish.UNPINNED)
    if wish is Wish.PINNED_ANEW:
        assert Form.OLD_LABEL not in forms
    for scheduler in ("test", "other"):
        keys = PinLabels(scheduler)
        for namespace in ("default", "shop"):
            for pod_name in ("web-0", "web-1", "db", LONG, "pods"):
                other = PodName(namespace, pod_name)
                if (scheduler, pod_name) == ("test", name):
                    continue  # itself, or a namesake that shares the older label
                assert pins_for(now, keys, other) == pins_for(before, keys, other)


@pytest.mark.parametrize(
    ("key", "known", "expected"),
    [
        ("rf.scheduler.test.default/web-0", set(), {"test"}),
        ("rf.scheduler.test/web-0", set(), {"test"}),
        ("rf.scheduler.a.b.default/x", set(), {"a.b"}),
        ("rf.scheduler.a.b/x", {"a.b"}, {"a.b"}),
        ("rf.scheduler.a.b/x", {"a", "a.b"}, {"a", "a.b"}),
        ("rf.scheduler.a.b/x", {"c"}, {"a"}),
        ("rf.scheduler./x", set(), set()),
        ("rf.scheduler.x", set(), set()),
        ("kubernetes.io/hostname", set(), set()),
    ],
)
def test_schedulers_are_found_by_their_keys(key: str, known: set[str], expected: set[str]) -> None:
    assert schedulers_with_keys([node("n", labels={key: ""})], known, "rf.scheduler") == expected
    in_list = node("n", annotations={key: ""})
    assert schedulers_with_keys([in_list], known, "rf.scheduler") == expected


def test_lists_in_sentences() -> None:
    assert [joined(["a", "b", "c"][:n]) for n in range(4)] == ["", "a", "a and b", "a, b and c"]
