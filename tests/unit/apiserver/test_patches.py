"""JSON, merge and strategic merge patches: the semantics that clients rely on."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.apiserver.json_patch import JsonPatchError, apply_json_patch
from stowplan.apiserver.kinds import KINDS, Kind
from stowplan.apiserver.patches import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    apply_patch,
)
from stowplan.errors import ApiError

Json = dict[str, Any]

_BY_NAME = {(kind.group, kind.kind): kind for kind in KINDS}
POD = _BY_NAME["", "Pod"]
NODE = _BY_NAME["", "Node"]
PDB = _BY_NAME["policy", "PodDisruptionBudget"]


def patched(content_type: str, current: Json, patch: Any, kind: Kind = POD) -> Json:
    before = copy.deepcopy(current)
    result = apply_patch(content_type, current, json.dumps(patch).encode(), kind=kind)
    assert current == before, "the input was changed"
    return result


def json_patched(current: Json, *operations: Json) -> Json:
    return patched(JSON_PATCH, current, list(operations))


def strategic(current: Json, patch: Json, kind: Kind = POD) -> Json:
    return patched(STRATEGIC_MERGE_PATCH, current, patch, kind)


# JSON patch


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/b", "value": 2}, {"a": [1, 2], "m": {"k": "v"}, "b": 2}),
        ({"op": "add", "path": "/a/0", "value": 0}, {"a": [0, 1, 2], "m": {"k": "v"}}),
        ({"op": "add", "path": "/a/-", "value": 3}, {"a": [1, 2, 3], "m": {"k": "v"}}),
        ({"op": "add", "path": "/a/-1", "value": 3}, {"a": [1, 2, 3], "m": {"k": "v"}}),
        ({"op": "remove", "path": "/a/0"}, {"a": [2], "m": {"k": "v"}}),
        ({"op": "remove", "path": "/a/-1"}, {"a": [1], "m": {"k": "v"}}),
        ({"op": "remove", "path": "/m/k"}, {"a": [1, 2], "m": {}}),
        ({"op": "replace", "path": "/a/1", "value": 9}, {"a": [1, 9], "m": {"k": "v"}}),
        ({"op": "replace", "path": "/m/new", "value": 1}, {"a": [1, 2], "m": {"k": "v", "new": 1}}),
        ({"op": "move", "from": "/a/0", "path": "/m/k"}, {"a": [2], "m": {"k": 1}}),
        ({"op": "copy", "from": "/m", "path": "/a/-"}, {"a": [1, 2, {"k": "v"}], "m": {"k": "v"}}),
        ({"op": "test", "path": "/m", "value": {"k": "v"}}, {"a": [1, 2], "m": {"k": "v"}}),
        ({"op": "test", "path": "/absent", "value": None}, {"a": [1, 2], "m": {"k": "v"}}),
    ],
)
def test_json_patch_operations(operation: Json, expected: Json) -> None:
    assert json_patched({"a": [1, 2], "m": {"k": "v"}}, operation) == expected


def test_json_patch_unescapes_its_paths() -> None:
    current = {"metadata": {"labels": {"example.com/a~b": "1"}}}
    path = "/metadata/labels/example.com~1a~0b"
    assert json_patched(current, {"op": "remove", "path": path}) == {"metadata": {"labels": {}}}


def test_json_patch_copies_do_not_share() -> None:
    result = json_patched(
        {"a": {"x": 1}},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "replace", "path": "/b/x", "value": 2},
    )
    assert result == {"a": {"x": 1}, "b": {"x": 2}}


@pytest.mark.parametrize(
    ("operation", "cause"),
    [
        ({"op": "test", "path": "/a", "value": True}, "testing value /a failed: test failed"),
        ({"op": "test", "path": "/a", "value": 1.0}, "testing value /a failed: test failed"),
        ({"op": "remove", "path": "/b"}, "error in remove for path: '/b': Unable to remove"),
        ({"op": "add", "path": "/b/c", "value": 1}, 'doc is missing path: "/b/c": missing value'),
        ({"op": "add", "path": "/l/7", "value": 1}, "Unable to access invalid index: 7"),
        ({"op": "add", "path": "/l/x", "value": 1}, "value was not a proper array index: 'x'"),
        ({"op": "replace", "path": "/l/1", "value": 1}, "doc is missing key: /l/1"),
        ({"op": "move", "from": "/b/c", "path": "/d"}, "doc is missing from path: /b/c"),
        ({"op": "copy", "from": "/a", "path": "/b/c"}, "missing destination path: /b/c"),
        ({"op": "frobnicate", "path": "/a"}, "Unexpected kind: frobnicate"),
        ({"op": "add", "value": 1}, "add operation failed to decode path"),
    ],
)
def test_json_patch_that_does_not_apply_is_422(operation: Json, cause: str) -> None:
    current = {"a": 1, "l": []}
    with pytest.raises(ApiError) as caught:
        json_patched(current, operation)
    assert caught.value.status == 422
    with pytest.raises(JsonPatchError, match=re.escape(cause)):
        apply_json_patch(current, [operation])


@pytest.mark.parametrize("content_type", [JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH])
@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "unexpected end of JSON input"),
        (b'{"a":', "unexpected end of JSON input"),
        (b'{"a', "unexpected end of JSON input"),
        (b"{nonsense", "invalid character 'n' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        (b'{"a":[1 2]}', "invalid character '2' after array element"),
        (b'{"a":1}}', "invalid character '}' after top-level value"),
        (b"what", "invalid character 'w' looking for beginning of value"),
    ],
)
def test_bodies_that_are_no_json_are_400(content_type: str, body: bytes, complaint: str) -> None:
    with pytest.raises(ApiError) as caught:
        apply_patch(content_type, {}, body, kind=POD)
    assert caught.value.status == 400
    assert caught.value.message == f"error decoding patch: {complaint}"


@pytest.mark.parametrize(
    ("content_type", "body", "complaint"),
    [
        (JSON_PATCH, b"{}", "cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        (JSON_PATCH, b"[1]", "cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        (
            MERGE_PATCH,
            b"[]",
            "cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (
            STRATEGIC_MERGE_PATCH,
            b'"a"',
            "cannot unmarshal string into Go value of type map[string]interface {}",
        ),
    ],
)
def test_bodies_of_another_shape_are_400(content_type: str, body: bytes, complaint: str) -> None:
    with pytest.raises(ApiError) as caught:
        apply_patch(content_type, {}, body, kind=POD)
    assert caught.value.status == 400
    assert caught.value.message == f"error decoding patch: json: {complaint}"


# Merge patch


@pytest.mark.parametrize(
    ("current", "patch", "expected"),
    [  # the examples of RFC 7386, as far as both are objects
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch(current: Json, patch: Json, expected: Json) -> None:
    assert patched(MERGE_PATCH, current, patch) == expected


# Strategic merge patch


def containers(*names: str, **more: Any) -> list[Json]:
    return [{"name": name, "image": f"{name}:1", **more} for name in names]


def test_lists_by_key_merge_element_by_element() -> None:
    current = {"spec": {"containers": containers("a", "b")}}
    result = strategic(current, {"spec": {"containers": [{"name": "b", "image": "b:2"}]}})
    assert result["spec"]["containers"] == [
        {"name": "a", "image": "a:1"},
        {"name": "b", "image": "b:2"},
    ]


def test_new_elements_come_in_the_order_of_the_patch() -> None:
    current = {"spec": {"containers": containers("a", "b", "c")}}
    patch = {"spec": {"containers": containers("x", "c")}}
    names = [item["name"] for item in strategic(current, patch)["spec"]["containers"]]
    assert names == ["x", "a", "b", "c"]


def test_set_element_order_decides() -> None:
    current = {"spec": {"containers": containers("a", "b", "server-only")}}
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
            "containers": [{"name": "c", "image": "c:1"}],
        }
    }
    names = [item["name"] for item in strategic(current, patch)["spec"]["containers"]]
    assert names == ["c", "b", "a", "server-only"]


def test_set_element_order_that_lacks_a_patched_element_is_refused() -> None:
    patch = {
        "spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": containers("b")}
    }
    with pytest.raises(ApiError, match="doesn't match"):
        strategic({"spec": {"containers": containers("a", "b")}}, patch)


def test_patch_directives_in_elements() -> None:
    current = {"spec": {"containers": containers("a", "b")}}
    gone = strategic(current, {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}})
    assert [item["name"] for item in gone["spec"]["containers"]] == ["b"]
    patch = {"spec": {"containers": [*containers("z"), {"$patch": "replace"}]}}
    assert strategic(current, patch)["spec"]["containers"] == containers("z")


def test_patch_directives_in_maps() -> None:
    current = {"metadata": {"labels": {"a": "1", "b": "2"}}}
    replaced = strategic(current, {"metadata": {"labels": {"$patch": "replace", "c": "3"}}})
    assert replaced["metadata"]["labels"] == {"c": "3"}
    deleted = strategic(current, {"metadata": {"labels": {"$patch": "delete"}}})
    assert deleted["metadata"]["labels"] == {}


def test_null_deletes_and_absent_null_is_nothing() -> None:
    current = {"metadata": {"labels": {"a": "1"}}}
    result = strategic(current, {"metadata": {"labels": {"a": None, "b": None}}, "spec": None})
    assert result == {"metadata": {"labels": {}}}


def test_finalizers_are_a_set() -> None:
    current = {"metadata": {"finalizers": ["a", "b"]}}
    merged = strategic(current, {"metadata": {"finalizers": ["b", "c"]}})
    assert sorted(merged["metadata"]["finalizers"]) == ["a", "b", "c"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}
    assert strategic(current, patch)["metadata"]["finalizers"] == ["b"]


def test_retain_keys_clears_the_others() -> None:
    current = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    volume = {"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}
    result = strategic(current, {"spec": {"volumes": [volume]}})
    assert result["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}]
    volume["$retainKeys"] = ["name"]
    with pytest.raises(ApiError, match="invalid patch format of retainKeys"):
        strategic(current, {"spec": {"volumes": [volume]}})


@pytest.mark.parametrize(
    ("current", "patch"),
    [
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}),
        ({"taints": [{"key": "a"}]}, {"taints": [{"key": "b"}]}),
    ],
)
def test_lists_without_a_key_are_replaced(current: Json, patch: Json) -> None:
    assert strategic({"spec": current}, {"spec": patch}, NODE) == {"spec": patch}


@pytest.mark.parametrize(
    ("kind", "path", "key"),
    [
        (POD, ("metadata", "ownerReferences"), "uid"),
        (POD, ("spec", "initContainers"), "name"),
        (POD, ("spec", "volumes"), "name"),
        (POD, ("spec", "imagePullSecrets"), "name"),
        (POD, ("spec", "schedulingGates"), "name"),
        (POD, ("spec", "topologySpreadConstraints"), "topologyKey"),
        (POD, ("status", "conditions"), "type"),
        (NODE, ("status", "conditions"), "type"),
        (NODE, ("status", "addresses"), "type"),
        (_BY_NAME["", "Service"], ("spec", "ports"), "port"),
        (_BY_NAME["apps", "Deployment"], ("status", "conditions"), "type"),
        (_BY_NAME["storage.k8s.io", "CSINode"], ("spec", "drivers"), "name"),
    ],
)
def test_merge_keys(kind: Kind, path: tuple[str, str], key: str) -> None:
    current = {path[0]: {path[1]: [{key: "a", "x": 1}, {key: "b", "x": 1}]}}
    result = strategic(current, {path[0]: {path[1]: [{key: "b", "y": 2}]}}, kind)
    assert result[path[0]][path[1]] == [{key: "a", "x": 1}, {key: "b", "x": 1, "y": 2}]


@pytest.mark.parametrize(
    ("field", "key"),
    [("ports", "containerPort"), ("env", "name"), ("volumeMounts", "mountPath")],
)
def test_merge_keys_inside_templates(field: str, key: str) -> None:
    def spec(elements: list[Json]) -> Json:
        containers = [{"name": "c", field: elements}]
        return {"spec": {"template": {"spec": {"containers": containers}}}}

    current, patch = spec([{key: 1, "x": 1}, {key: 2}]), spec([{key: 1, "x": 2}])
    expected = spec([{key: 1, "x": 2}, {key: 2}])
    assert strategic(current, patch, _BY_NAME["apps", "Deployment"]) == expected


def test_selector_of_a_disruption_budget_is_replaced() -> None:
    current = {"spec": {"selector": {"matchLabels": {"a": "1"}}}}
    patch = {"spec": {"selector": {"matchLabels": {"b": "2"}}}}
    assert strategic(current, patch, PDB) == patch


def test_element_without_its_key_is_refused() -> None:
    current = {"spec": {"containers": containers("a")}}
    with pytest.raises(ApiError, match=r"map\[image:x\] does not contain declared merge key: name"):
        strategic(current, {"spec": {"containers": [{"image": "x"}]}})


def test_unknown_directives_are_refused() -> None:
    with pytest.raises(ApiError, match="unknown patch type: merge in map"):
        strategic({"spec": {"x": {}}}, {"spec": {"x": {"$patch": "merge"}}})


def test_directives_in_new_values_are_left_out() -> None:
    patch = {
        "spec": {
            "containers": [
                {"name": "new", "$setElementOrder/env": [{"name": "A"}], "env": [{"name": "A"}]}
            ],
            "volumes": [{"name": "v", "$retainKeys": ["name"]}, {"name": "w", "$patch": "delete"}],
        }
    }
    expected = {"containers": [{"name": "new", "env": [{"name": "A"}]}], "volumes": [{"name": "v"}]}
    assert strategic({"metadata": {}}, patch) == {"metadata": {}, "spec": expected}


def test_other_content_types_are_415() -> None:
    with pytest.raises(ApiError) as caught:
        apply_patch("application/json", {}, b"{}", kind=POD)
    assert caught.value.status == 415


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner),
    max_leaves=8,
)
_objects = st.dictionaries(st.sampled_from("abcd"), _json, max_size=4)


@given(_objects, _objects)
def test_a_merge_patch_applied_twice_is_applied_once(current: Json, patch: Json) -> None:
    once = patched(MERGE_PATCH, current, patch)
    assert patched(MERGE_PATCH, once, patch) == once


@given(_objects, _objects)
def test_without_keyed_lists_strategic_merge_is_a_merge_patch(current: Json, patch: Json) -> None:
    current = _without_nulls(current)
    expected = patched(MERGE_PATCH, current, patch)
    # In new lists the two differ on purpose: strategic merge drops nulls there as well.
    assert strategic(current, _without_nulls_in_lists(patch)) == _without_nulls_in_lists(expected)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _without_nulls_in_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls_in_lists(item) for key, item in value.items()}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
