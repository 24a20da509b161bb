from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.labels import label_key_errors
from stowplan.plugins.static_placement.labels import (
    Form,
    Pin,
    PinLabels,
    listed_pods,
    name_problem,
)

TEST = PinLabels("test")

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True)
DOTTED = st.lists(NAMES, min_size=1, max_size=3).map(".".join)


def test_the_keys() -> None:
    assert TEST.label("default", "web-0") == "rf.scheduler.test.default/web-0"
    assert TEST.old_label("web-0") == "rf.scheduler.test/web-0"
    assert TEST.annotation("default") == "rf.scheduler.test.default/pods"
    assert PinLabels("test", "example.com").label("db", "pg-1") == "example.com.test.db/pg-1"


def test_every_form_is_read() -> None:
    labels = {
        "kubernetes.io/hostname": "kind-worker",
        "rf.scheduler.test.default/web-0": "",
        "rf.scheduler.test/web-1": "whatever",
    }
    annotations = {"rf.scheduler.test.db/pods": "pg-0, pg-1"}
    assert list(TEST.pins_of(labels, annotations)) == [
        Pin("default", "web-0", Form.LABEL, "rf.scheduler.test.default/web-0"),
        Pin("", "web-1", Form.OLD_LABEL, "rf.scheduler.test/web-1"),
        Pin("db", "pg-0", Form.ANNOTATION, "rf.scheduler.test.db/pods"),
        Pin("db", "pg-1", Form.ANNOTATION, "rf.scheduler.test.db/pods"),
    ]


@pytest.mark.parametrize(
    "key",
    [
        "rf.scheduler.test",  # no name at all
        "rf.scheduler.test/",
        "rf.scheduler.test.default/",
        "rf.scheduler.test./web-0",
        "rf.scheduler.tester/web-0",  # another scheduler, whose name begins alike
        "rf.scheduler.tester.default/web-0",
        "rf.scheduler.test-2.default/web-0",
        "rf.scheduler.test.a.b/web-0",  # namespaces have no dots: scheduler test.a
        "rf.scheduler/web-0",
        "test.default/web-0",
        "web-0",
    ],
)
def test_keys_that_pin_nothing_for_us(key: str) -> None:
    assert list(TEST.pins_of({key: ""}, {key: "web-0"})) == []


@pytest.mark.parametrize("value", ["", "true", "false", "whatever"])
def test_any_value_of_a_label_counts(value: str) -> None:
    (pin,) = TEST.pins_of({"rf.scheduler.test.default/web-0": value}, {})
    assert (pin.namespace, pin.pod) == ("default", "web-0")


def test_a_node_without_labels_or_annotations() -> None:
    assert list(TEST.pins_of(None, None)) == list(TEST.pins_of({}, {})) == []


def test_labels_hold_no_lists_and_annotations_no_single_pods() -> None:
    key = "rf.scheduler.test.default/pods"
    assert list(TEST.pins_of({key: "web-0"}, {})) == [Pin("default", "pods", Form.LABEL, key)]
    assert list(TEST.pins_of({}, {"rf.scheduler.test.default/web-0": ""})) == []
    # The older form has no list: it could not tell namespaces apart.
    assert list(TEST.pins_of({}, {"rf.scheduler.test/pods": "web-0"})) == []


@pytest.mark.parametrize(
    ("value", "pods"),
    [
        ("", ()),
        (" \n\t,, ,", ()),
        ("a", ("a",)),
        ("a,b", ("a", "b")),
        ("a b", ("a", "b")),
        ("  a ,\n\tb,,c \r\n", ("a", "b", "c")),
        (",a,", ("a",)),
        ("b a b", ("b", "a")),
        ("a\u00a0b", ("a", "b")),
    ],
)
def test_lists_of_pods(value: str, pods: tuple[str, ...]) -> None:
    assert listed_pods(value) == pods


def test_a_dot_makes_another_scheduler_of_the_same_key() -> None:
    labels = {"rf.scheduler.a.b/x": ""}
    (by_a,) = PinLabels("a").pins_of(labels, {})
    (by_a_b,) = PinLabels("a.b").pins_of(labels, {})
    assert (by_a.namespace, by_a.form) == ("b", Form.LABEL)
    assert (by_a_b.namespace, by_a_b.form) == ("", Form.OLD_LABEL)
    assert list(PinLabels("b").pins_of(labels, {})) == []
    (pin,) = PinLabels("a.b").pins_of({"rf.scheduler.a.b.c/x": ""}, {})
    assert pin.namespace == "c"


@pytest.mark.parametrize(
    ("pod", "fits"),
    [
        ("a" * 63, True),
        ("a" * 64, False),
        ("web.0", True),
        ("-web", False),
        ("web/0", False),
        ("wéb", False),
        ("", False),
    ],
)
def test_names_that_a_label_can_hold(pod: str, fits: bool) -> None:
    assert TEST.fits_a_label("default", pod) is fits


def test_commands() -> None:
    assert TEST.command("default", "web-0") == (
        "kubectl label node NODE rf.scheduler.test.default/web-0="
    )
    assert TEST.command("db", "pg-0", "node-7") == (
        "kubectl label node node-7 rf.scheduler.test.db/pg-0="
    )
    long = "a" * 64
    assert TEST.command("db", long, "node-7") == (
        f"kubectl annotate node node-7 rf.scheduler.test.db/pods={long}"
    )


@pytest.mark.parametrize(
    "name", ["test", "rfcustom", "default-scheduler", "a.b", "0", "x" * 176, "a-1.b-2"]
)
def test_names_that_make_labels(name: str) -> None:
    assert name_problem(name) is None
    assert label_key_errors(PinLabels(name).label("n" * 63, "p" * 63)) == []


@pytest.mark.parametrize(
    "name", ["Test", "", "a_b", "-a", "a-", ".a", "a.", "a..b", "a b", "a/b", "tést", "a\n", "ａ"]
)
def test_names_that_make_none(name: str) -> None:
    problem = name_problem(name)
    assert problem is not None
    assert repr(name) in problem
    assert "must be lower case letters, digits, '-' and '.'" in problem


def test_a_name_that_leaves_no_room_for_a_namespace() -> None:
    problem = name_problem("x" * 177)
    assert problem is not None
    assert "it may have 176 characters" in problem


def test_a_prefix_that_makes_none() -> None:
    for prefix in ("", "Rf", "a/b", "x" * 254):
        problem = name_problem("test", prefix)
        assert problem is not None
        assert problem.startswith(f"{prefix!r} cannot begin a node label")
    assert name_problem("test", "pins.example.com") is None


@given(DOTTED, NAMES, DOTTED)
def test_what_is_written_is_read_again(scheduler: str, namespace: str, pod: str) -> None:
    pins = PinLabels(scheduler)
    label, old, listed = pins.label(namespace, pod), pins.old_label(pod), pins.annotation(namespace)
    assert list(pins.pins_of({label: "", old: ""}, {listed: pod})) == [
        Pin(namespace, pod, Form.LABEL, label),
        Pin("", pod, Form.OLD_LABEL, old),
        Pin(namespace, pod, Form.ANNOTATION, listed),
    ]
