"""Server-side apply: who owns what, what is removed, what is a conflict."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.apiserver.apply import server_side_apply, track_update
from stowplan.apiserver.field_sets import from_fields_v1, to_fields_v1
from stowplan.apiserver.kinds import KINDS
from stowplan.errors import ApiError

Json = dict[str, Any]

POD = next(kind for kind in KINDS if kind.kind == "Pod")
NOW = "2026-01-02T03:04:05Z"
LATER = "2026-01-02T03:04:06Z"


def pod(labels: Json | None = None, **spec: Any) -> Json:
    metadata: Json = {"name": "p", "namespace": "default"}
    if labels is not None:
        metadata["labels"] = labels
    obj: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    return {**obj, "spec": spec} if spec else obj


def apply(
    current: Json | None, applied: Json, manager: str, *, force: bool = False, now: str = NOW
) -> Json:
    before = copy.deepcopy((current, applied))
    result = server_side_apply(
        current, applied, kind=POD, field_manager=manager, force=force, now=now
    )
    assert (current, applied) == before, "the input was changed"
    return result


def owners(obj: Json) -> dict[str, Json]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"]["managedFields"]}


def test_creating_records_the_manager() -> None:
    result = apply(None, pod({"a": "1"}, nodeName="n"), "one")
    assert result["metadata"]["managedFields"] == [
        {
            "manager": "one",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:nodeName": {}}},
        }
    ]


def test_list_elements_are_owned_by_key() -> None:
    ports = [{"containerPort": 80}]
    result = apply(None, pod(containers=[{"name": "a", "image": "i", "ports": ports}]), "one")
    assert owners(result)["one"]["f:spec"] == {
        "f:containers": {
            'k:{"name":"a"}': {
                ".": {},
                "f:image": {},
                "f:name": {},
                "f:ports": {
                    'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}
                },
            }
        }
    }


def test_fields_no_longer_applied_are_removed() -> None:
    first = apply(None, pod({"a": "1", "b": "2"}), "one")
    result = apply(first, pod({"a": "1"}), "one")
    assert result["metadata"]["labels"] == {"a": "1"}
    assert "labels" not in apply(result, pod(), "one")["metadata"]


def test_fields_that_somebody_else_owns_stay() -> None:
    shared = apply(apply(None, pod({"a": "1"}), "one"), pod({"a": "1", "b": "2"}), "two")
    result = apply(shared, pod(), "one")
    assert result["metadata"]["labels"] == {"a": "1", "b": "2"}
    assert list(owners(result)) == ["two"]


def test_what_nobody_applied_stays() -> None:
    live = apply(None, pod({"a": "1"}, nodeName="n"), "one")
    live["spec"]["schedulerName"] = "default-scheduler"
    result = apply(live, pod(), "one")
    assert result["spec"] == {"schedulerName": "default-scheduler"}


def test_elements_are_removed_whole_with_their_defaults() -> None:
    one = [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]
    live = apply(None, pod(containers=one), "one")
    live["spec"]["containers"][1]["imagePullPolicy"] = "Always"
    result = apply(live, pod(containers=one[:1]), "one")
    assert result["spec"]["containers"] == one[:1]


def test_elements_in_which_somebody_else_has_a_field_stay() -> None:
    live = apply(None, pod(containers=[{"name": "a", "image": "i"}]), "one")
    live = apply(live, pod(containers=[{"name": "a", "tty": True}]), "two")
    result = apply(live, pod(), "one")
    assert result["spec"]["containers"] == [{"name": "a", "tty": True}]


def test_finalizers_are_owned_one_by_one() -> None:
    first, second = pod(), pod()
    first["metadata"]["finalizers"] = ["a/x"]
    second["metadata"]["finalizers"] = ["b/y"]
    live = apply(apply(None, first, "one"), second, "two")
    assert live["metadata"]["finalizers"] == ["a/x", "b/y"]
    assert apply(live, pod(), "one")["metadata"]["finalizers"] == ["b/y"]


def test_changing_what_another_owns_is_a_conflict() -> None:
    live = apply(None, pod(containers=[{"name": "a", "image": "i"}]), "one")
    with pytest.raises(ApiError) as caught:
        apply(live, pod(containers=[{"name": "a", "image": "j"}]), "two")
    error = caught.value
    assert (error.status, error.reason) == (409, "Conflict")
    assert error.message == (
        'Apply failed with 1 conflict: conflict with "one": .spec.containers[name="a"].image'
    )
    assert error.details == {  # type: ignore[attr-defined]  # this subclass has it
        "causes": [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "one"',
                "field": '.spec.containers[name="a"].image',
            }
        ]
    }


def test_several_conflicts_are_all_named() -> None:
    live = apply(None, pod({"a": "1"}, nodeName="n"), "one")
    with pytest.raises(ApiError) as caught:
        apply(live, pod({"a": "2"}, nodeName="m"), "two")
    assert caught.value.message == (
        'Apply failed with 2 conflicts: conflicts with "one":\n- .metadata.labels.a\n'
        "- .spec.nodeName"
    )


def test_force_takes_the_fields_over() -> None:
    live = apply(None, pod({"a": "1", "b": "1"}), "one")
    result = apply(live, pod({"a": "2"}), "two", force=True)
    assert result["metadata"]["labels"] == {"a": "2", "b": "1"}
    assert owners(result) == {
        "one": {"f:metadata": {"f:labels": {"f:b": {}}}},
        "two": {"f:metadata": {"f:labels": {"f:a": {}}}},
    }


def test_the_same_value_is_owned_together() -> None:
    live = apply(apply(None, pod({"a": "1"}), "one"), pod({"a": "1"}), "two")
    assert owners(live)["one"] == owners(live)["two"]
    with pytest.raises(ApiError, match="conflict with"):
        apply(live, pod({"a": "2"}), "one")


def test_atomic_lists_have_one_owner() -> None:
    live = apply(None, pod(tolerations=[{"key": "a"}]), "one")
    with pytest.raises(ApiError, match=r'conflict with "one": \.spec\.tolerations$'):
        apply(live, pod(tolerations=[{"key": "a"}, {"key": "b"}]), "two")


def test_applying_the_same_again_changes_nothing() -> None:
    live = apply(None, pod({"a": "1"}, containers=[{"name": "a"}]), "one")
    assert apply(live, pod({"a": "1"}, containers=[{"name": "a"}]), "one", now=LATER) == live


def test_an_object_never_applied_belongs_to_before_first_apply() -> None:
    live = pod({"a": "1"})
    with pytest.raises(ApiError, match=r'"before-first-apply": \.metadata\.labels\.a$'):
        apply(live, pod({"a": "2"}), "one")
    result = apply(live, pod({"b": "1"}), "one")
    assert result["metadata"]["labels"] == {"a": "1", "b": "1"}


def test_applied_elements_keep_their_order() -> None:
    live = apply(None, pod(containers=[{"name": "a"}, {"name": "b"}]), "one")
    result = apply(live, pod(containers=[{"name": "c"}, {"name": "b"}]), "two")
    assert [item["name"] for item in result["spec"]["containers"]] == ["a", "c", "b"]


def test_updates_take_fields_over_and_forget_removed_ones() -> None:
    live = apply(None, pod({"a": "1", "b": "1"}), "one")
    after = copy.deepcopy(live)
    after["metadata"]["labels"] = {"a": "2", "c": "3"}
    result = track_update(live, after, kind=POD, manager="curl", now=LATER)
    assert owners(result) == {"curl": {"f:metadata": {"f:labels": {"f:a": {}, "f:c": {}}}}}
    with pytest.raises(ApiError) as caught:
        apply(result, pod({"a": "1"}), "one")
    assert 'conflict with "curl" using v1: .metadata.labels.a' in caught.value.message


def test_updates_own_the_maps_that_they_add() -> None:
    live = apply(None, pod(nodeName="n"), "one")
    after = copy.deepcopy(live)
    after["metadata"]["labels"] = {"a": "1"}
    result = track_update(live, after, kind=POD, manager="curl", now=LATER)
    assert owners(result)["curl"] == {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}


def test_updates_of_objects_never_applied_are_not_tracked() -> None:
    after = pod({"a": "2"})
    assert track_update(pod(), after, kind=POD, manager="curl", now=NOW) is after


def test_updates_that_change_nothing_keep_the_entries() -> None:
    live = apply(None, pod({"a": "1"}), "one")
    after = copy.deepcopy(live)
    del after["metadata"]["managedFields"]
    assert track_update(live, after, kind=POD, manager="curl", now=LATER) == live


def test_bad_configurations() -> None:
    with pytest.raises(ApiError, match="Specified patch version: v2, expected: v1"):
        apply(None, {**pod(), "apiVersion": "v2"}, "one")
    with_fields = pod()
    with_fields["metadata"]["managedFields"] = []
    with pytest.raises(ApiError, match=r"metadata\.managedFields must be nil"):
        apply(None, with_fields, "one")
    with pytest.raises(ApiError, match="duplicate entries for key"):
        apply(None, pod(containers=[{"name": "a"}, {"name": "a"}]), "one")
    with pytest.raises(ApiError, match='omits key field "name"'):
        apply(None, pod(containers=[{"image": "a"}]), "one")


def test_client_side_apply_is_kept_in_step() -> None:
    annotation = "kubectl.kubernetes.io/last-applied-configuration"
    live = pod({"a": "1"})
    live["metadata"]["annotations"] = {annotation: "{}"}
    result = apply(live, pod({"b": "2"}), "kubectl")
    assert '"labels":{"b":"2"}' in result["metadata"]["annotations"][annotation]


_elements = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])
_paths = st.sets(st.lists(_elements, min_size=1, max_size=4).map(tuple))


@given(_paths)
def test_field_sets_survive_the_wire(paths: set[tuple[str, ...]]) -> None:
    assert from_fields_v1(to_fields_v1(paths)) == paths


_labels = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"))


@given(st.lists(st.tuples(st.sampled_from(["one", "two"]), _labels), max_size=6))
def test_every_applied_field_is_there_and_owned(steps: list[tuple[str, Json]]) -> None:
    live: Json | None = None
    applied: dict[str, Json] = {}
    for manager, labels in steps:
        live = apply(live, pod(labels), manager, force=True)
        applied[manager] = labels
        assert live["metadata"].get("labels", {}).items() >= labels.items()
        # Nothing is left over that neither of the two has asked for in its last configuration.
        wanted = {key for configuration in applied.values() for key in configuration}
        assert live["metadata"].get("labels", {}).keys() <= wanted
