"""Admission: priority, namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.apiserver.serving import PODS, Api, pod

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


async def add_class(api: Api, name: str, value: int, **rest: Any) -> None:
    await api.create(CLASSES, {"metadata": {"name": name}, "value": value, **rest})


async def test_no_class_means_zero(api: Api) -> None:
    spec = (await api.create(PODS, pod()))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert "priorityClassName" not in spec


@pytest.mark.parametrize(
    ("name", "value"),
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)],
)
async def test_system_classes_exist(api: Api, name: str, value: int) -> None:
    spec = (await api.create(PODS, pod(priorityClassName=name)))["spec"]
    assert spec["priority"] == value


async def test_a_class_gives_priority_and_policy(api: Api) -> None:
    await add_class(api, "batch", -5, preemptionPolicy="Never")
    spec = (await api.create(PODS, pod(priorityClassName="batch")))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (-5, "Never")


async def test_of_several_global_defaults_the_smallest_counts(api: Api) -> None:
    await add_class(api, "high", 100, globalDefault=True)
    await add_class(api, "low", 10, globalDefault=True)
    spec = (await api.create(PODS, pod()))["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("low", 10)


async def test_an_unknown_class(api: Api) -> None:
    answer = await api.request("POST", PODS, pod(priorityClassName="none"))
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == ('pods "a" is forbidden: no PriorityClass with name none was found')
    assert answer.body["details"] == {"name": "a", "kind": "pods"}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"priority": 5},
            "the integer value of priority (5) must not be provided in pod spec; priority"
            " admission controller computed 0 from the given PriorityClass name",
        ),
        (
            {"preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec;"
            " priority admission controller computed PreemptLowerPriority from the given"
            " PriorityClass name",
        ),
    ],
)
async def test_own_numbers_are_refused(api: Api, spec: dict[str, Any], message: str) -> None:
    answer = await api.request("POST", PODS, pod(**spec))
    assert answer.status == 403
    assert answer.message == f'pods "a" is forbidden: {message}'
    assert (await api.request("POST", PODS, pod(priority=0))).status == 201


async def test_a_namespace_that_is_not_there(api: Api) -> None:
    answer = await api.request("POST", "/api/v1/namespaces/nowhere/pods", pod())
    assert (answer.status, answer.message) == (404, 'namespaces "nowhere" not found')
    assert answer.body["details"] == {"name": "nowhere", "kind": "namespaces"}


async def test_a_terminating_namespace_takes_nothing_new(api: Api) -> None:
    await api.create("/api/v1/namespaces", {"metadata": {"name": "x"}})
    held = pod("held", {"finalizers": ["a.b/c"]})
    await api.create("/api/v1/namespaces/x/pods", held)
    await api.request("DELETE", "/api/v1/namespaces/x")
    answer = await api.request("POST", "/api/v1/namespaces/x/pods", pod())
    assert answer.status == 403
    assert answer.body["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace x is being terminated",
            "field": "metadata.namespace",
        }
    ]
    await api.patch("/api/v1/namespaces/x/pods/held", {"metadata": {"finalizers": None}})
    assert (await api.request("GET", "/api/v1/namespaces/x")).status == 404
