"""Rights by reading roles: who may do what."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.learn.course import Course
from stowplan.learn.rights import Malformed, Right, Roles, Rule
from stowplan.learn.work_check import check_work

LESSON = Course().find("deploy")
DOCUMENTS: list[dict[str, Any]] = list(yaml.safe_load_all(LESSON.solution.read_text()))
BIND = Right("create", "pods/binding", ("RoleBinding", "ClusterRoleBinding"))
LIST_NODES = Right("list", "nodes", ("ClusterRoleBinding",))


def allowed(roles: Roles, right: Right, account: str = "prgcontsched", ns: str = "default") -> bool:
    return any(rule.allows(right) for rule in roles.rules(right, account, ns))


def test_what_the_solution_allows_and_what_not() -> None:
    roles = Roles(DOCUMENTS)
    assert allowed(roles, BIND)
    assert allowed(roles, LIST_NODES)
    assert not allowed(roles, BIND._replace(verb="delete"))
    assert not allowed(roles, BIND._replace(resource="pods"))
    assert not allowed(roles, BIND, account="default")
    assert not allowed(roles, BIND, ns="kube-system")


def test_nodes_take_a_cluster_role_binding() -> None:
    documents = copy.deepcopy(DOCUMENTS)
    role = next(each for each in documents if each["kind"] == "Role")
    role["rules"].append({"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]})
    roles = Roles([each for each in documents if not each["kind"].startswith("Cluster")])
    assert not allowed(roles, LIST_NODES)
    assert allowed(roles, BIND)


def test_a_star_allows_all() -> None:
    rule = Rule(["*"], ["*"], ["*"])
    assert rule.allows(BIND)
    assert rule.is_without_bounds
    assert not Rule(["create"], [""], ["pods/binding"]).is_without_bounds


def test_the_group_matters() -> None:
    rule = Rule(["create"], ["apps"], ["pods/binding"])
    assert not rule.allows(BIND)
    assert rule.allows(BIND, in_any_group=True)


@pytest.mark.parametrize(
    "broken",
    [
        {"rules": {"verbs": ["list"]}},
        {"rules": [{"verbs": "list"}]},
        {"rules": [{"apiGroups": [""], "resources": ["pods"]}]},
        {"rules": ["list"]},
        {"metadata": {"name": "prgcontsched", "namespace": 3}},
    ],
)
def test_a_role_that_no_server_would_take(broken: dict[str, Any]) -> None:
    role = next(each for each in DOCUMENTS if each["kind"] == "Role")
    with pytest.raises(Malformed, match=r"Role prgcontsched: (Expected|Object)"):
        Roles([{**role, **broken}])


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, each in items:
        yield (*path, key)
        yield from _paths(each, (*path, key))


@pytest.mark.parametrize("junk", [None, "x", 1, [], {}, ["x"], {"x": "y"}], ids=repr)
def test_whatever_is_in_the_file_there_is_a_verdict(junk: object, tmp_path: Path) -> None:
    """No defect of the check, wherever the junk is; at other places for each kind of junk."""
    file = tmp_path / "deploy.yaml"
    places = list(_paths(DOCUMENTS))
    for path in places[len(repr(junk)) :: 31]:
        documents: Any = copy.deepcopy(DOCUMENTS)
        inner = documents
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = junk
        file.write_text(yaml.safe_dump_all(documents))
        for mistake in check_work(LESSON, file, on="virtual", language="en").mistakes:
            assert "deploy.yaml" in mistake
