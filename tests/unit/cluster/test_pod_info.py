"""Compiled pods: which of the sums each extension point reads."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stowplan.api.objects import Pod, PodStatus
from stowplan.cluster.pod_info import compile_pod, same_footprint
from stowplan.testing import pod

MIB = 1 << 20
DEFAULT_MEMORY = 200 * MIB


def test_plain_pod_has_one_set_of_numbers() -> None:
    info = compile_pod(pod(cpu="500m", memory="1Gi", requests={"b.com/x": 1, "a.com/x": 2}))
    expected = (("cpu", 500), ("memory", 1 << 30), ("a.com/x", 2), ("b.com/x", 1))
    assert info.request == info.score_request == info.held == expected
    assert info.held_non_zero == (500, 1 << 30)


def test_order_does_not_depend_on_how_the_pod_was_written() -> None:
    requests = {"hugepages-2Mi": "2Mi", "ephemeral-storage": "1Gi", "memory": "1Mi", "cpu": "1"}
    turned = dict(reversed(requests.items()))
    one, other = (compile_pod(pod(cpu=None, memory=None, requests=r)) for r in (requests, turned))
    assert one.request == other.request
    assert [name for name, _ in one.request] == [
        "cpu", "memory", "ephemeral-storage", "hugepages-2Mi",
    ]  # fmt: skip


def test_pod_without_requests_counts_a_little_for_scoring() -> None:
    info = compile_pod(pod(cpu=None, memory=None))
    assert info.request == info.held == ()
    assert info.score_request == (("cpu", 100), ("memory", DEFAULT_MEMORY))
    assert info.held_non_zero == (100, DEFAULT_MEMORY)


def test_explicit_zero_counts_as_zero() -> None:
    info = compile_pod(pod(cpu="0", memory="0"))
    assert info.held_non_zero == (0, 0)
    assert info.score_request == (("cpu", 0), ("memory", 0))


def test_pod_level_resources_are_seen_by_filtering_but_not_by_scoring() -> None:
    info = compile_pod(
        pod(
            containers=[{"name": "a", "resources": {"requests": {"cpu": "1"}}}, {"name": "b"}],
            resources={"requests": {"cpu": "3"}},
        )
    )
    assert info.request == info.held == (("cpu", 3000),)
    # Upstream's quirk: the scorer never sees pod-level resources of the incoming pod.
    assert info.score_request == (("cpu", 1100), ("memory", 2 * DEFAULT_MEMORY))
    # On the node, defaults stand in only for what is missing at both levels.
    assert info.held_non_zero == (3000, 2 * DEFAULT_MEMORY)


def test_pod_level_limits_alone_change_no_default() -> None:
    containers = [{"name": "a", "resources": {"requests": {"cpu": "1"}}}, {"name": "b"}]
    info = compile_pod(pod(containers=containers, resources={"limits": {"cpu": "3"}}))
    assert info.held == (("cpu", 1000),)
    assert info.held_non_zero == (1100, 2 * DEFAULT_MEMORY)


def test_resized_pod_holds_more_than_it_asks_for() -> None:
    wire = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}
    status = msgspec.convert(wire, PodStatus)
    info = compile_pod(pod(cpu="1", memory=None, status=status))
    assert info.request == (("cpu", 1000),)
    assert info.held == (("cpu", 2000),)
    assert info.held_non_zero == (2000, DEFAULT_MEMORY)
    assert info.score_request == (("cpu", 1000), ("memory", DEFAULT_MEMORY))


def _with_status(built: Pod, **wire: Any) -> Pod:
    return msgspec.structs.replace(built, status=msgspec.convert(wire, PodStatus))


HELD = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        pytest.param({}, {"phase": "Running"}, True, id="phase"),
        pytest.param({}, {"conditions": READY}, True, id="conditions-without-held-amounts"),
        pytest.param({}, {"containerStatuses": HELD}, False, id="statuses"),
        pytest.param({}, {"initContainerStatuses": HELD}, False, id="init-statuses"),
        pytest.param({}, {"resources": {"requests": {"cpu": "1"}}}, False, id="pod-level"),
        pytest.param({}, {"allocatedResources": {"cpu": "1"}}, False, id="allocated"),
        pytest.param(
            {"containerStatuses": HELD},
            {"containerStatuses": HELD, "conditions": INFEASIBLE},
            False,
            id="infeasible",
        ),
        pytest.param(
            {"initContainerStatuses": HELD},
            {"initContainerStatuses": HELD, "conditions": INFEASIBLE},
            False,
            id="infeasible-sidecar",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": "1"}}},
            {"resources": {"requests": {"cpu": "1"}}, "conditions": INFEASIBLE},
            False,
            id="infeasible-pod-level",
        ),
    ],
)
def test_same_footprint(before: dict[str, Any], after: dict[str, Any], same: bool) -> None:
    built = pod("a")
    assert same_footprint(_with_status(built, **before), _with_status(built, **after)) is same


def test_another_spec_is_another_footprint() -> None:
    assert not same_footprint(pod("a", cpu="1"), pod("a", cpu="2"))
