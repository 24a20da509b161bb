"""PodRequests: what kube-scheduler adds up for a pod, case by case."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stowplan.api.objects import Pod, PodStatus
from stowplan.api.quantity import INT64_MAX
from stowplan.cluster.requests import (
    NON_ZERO_DEFAULTS,
    canonical,
    is_extended,
    is_pod_level,
    is_scalar,
    parse_amounts,
    pod_requests,
    whole_units,
)
from stowplan.testing import pod

Wire = dict[str, Any]


def container(name: str = "c", *, sidecar: bool = False, **requests: str) -> Wire:
    built: Wire = {"name": name, "resources": {"requests": dict(requests)}}
    if sidecar:
        built["restartPolicy"] = "Always"
    return built


def asked(pod_: Pod, **options: Any) -> dict[str, int]:
    return canonical(pod_requests(pod_, **options))


@pytest.mark.parametrize(
    ("containers", "init", "cpu"),
    [
        pytest.param([container(cpu="1"), container(cpu="2")], [], 3000, id="containers-add"),
        pytest.param([container(cpu="3")], [container(cpu="2")], 3000, id="init-is-smaller"),
        pytest.param(
            [container(cpu="1")],
            [container(cpu="2"), container(cpu="5"), container(cpu="3")],
            5000,
            id="largest-init",
        ),
        pytest.param(
            [container(cpu="1")], [container(cpu="2", sidecar=True)], 3000, id="sidecar-adds"
        ),
        pytest.param(
            [container(cpu="1")],
            [container(cpu="10"), container(cpu="2", sidecar=True)],
            10_000,
            id="init-before-its-sidecar-runs-alone",
        ),
        pytest.param(
            [container(cpu="1")],
            [container(cpu="2", sidecar=True), container(cpu="10")],
            12_000,
            id="init-after-a-sidecar-runs-beside-it",
        ),
        pytest.param(
            [container(cpu="1")],
            [
                container(cpu="2", sidecar=True),
                container(cpu="1"),
                container(cpu="3", sidecar=True),
                container(cpu="4"),
            ],
            9000,
            id="each-init-beside-the-sidecars-so-far",
        ),
        pytest.param([container()], [container(cpu="0")], 0, id="zero-stays-zero"),
    ],
)
def test_containers_and_init_containers(containers: list[Wire], init: list[Wire], cpu: int) -> None:
    built = pod(containers=containers, init_containers=init)
    assert asked(built) == ({"cpu": cpu} if cpu or init else {})


def test_maximum_is_taken_for_each_resource_apart() -> None:
    built = pod(
        containers=[container(cpu="2", memory="1Gi"), container(cpu="1", memory="1Gi")],
        init_containers=[container(cpu="2", memory="1Gi"), container(cpu="2", memory="3Gi")],
    )
    assert asked(built) == {"cpu": 3000, "memory": 3 << 30}


def test_overhead_comes_on_top() -> None:
    built = pod(containers=[container(cpu="1")], overhead={"cpu": "250m", "memory": "1Mi"})
    assert asked(built) == {"cpu": 1250, "memory": 1 << 20}


def test_pod_level_requests_replace_the_sum() -> None:
    built = pod(
        containers=[
            {"resources": {"requests": {"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"}}}
        ],
        resources={
            "requests": {"cpu": "500m", "hugepages-2Mi": "4Mi", "example.com/gpu": "9"},
            "limits": {"cpu": "8"},
        },
        overhead={"cpu": "100m"},
    )
    whole = asked(built)
    assert whole == {
        "cpu": 600, "memory": 1 << 30, "hugepages-2Mi": 4 << 20, "example.com/gpu": 1,
    }  # fmt: skip
    assert asked(built, skip_pod_level=True)["cpu"] == 1100


def test_defaults_fill_in_what_a_container_leaves_out() -> None:
    built = pod(
        containers=[container("a", cpu="1"), container("b", cpu="0"), {"name": "c"}],
        init_containers=[{"name": "i"}],
    )
    assert asked(built, defaults=NON_ZERO_DEFAULTS) == {"cpu": 1100, "memory": 600 << 20}


RESIZED: Wire = {
    "containerStatuses": [
        {
            "name": "c",
            "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
            "allocatedResources": {"cpu": "3", "memory": "512Mi"},
        }
    ]
}


def _status(wire: Wire, condition: Wire | None = None) -> PodStatus:
    return msgspec.convert({**wire, "conditions": [condition] if condition else []}, PodStatus)


def test_resized_container_holds_the_largest_figure() -> None:
    built = pod(containers=[container(cpu="1", memory="2Gi")], status=_status(RESIZED))
    assert asked(built) == {"cpu": 1000, "memory": 2 << 30}
    assert asked(built, use_status=True) == {"cpu": 3000, "memory": 2 << 30}


@pytest.mark.parametrize(("reason", "cpu"), [("Infeasible", 3000), ("Deferred", 8000), ("", 8000)])
def test_infeasible_resize_does_not_count_what_the_spec_wants(reason: str, cpu: int) -> None:
    condition = {"type": "PodResizePending", "status": "True", "reason": reason}
    built = pod(containers=[container(cpu="8")], status=_status(RESIZED, condition))
    assert asked(built, use_status=True)["cpu"] == cpu


def test_status_of_another_container_or_without_resources_says_nothing() -> None:
    built = pod(
        containers=[container("a", cpu="1"), container("b", cpu="1")],
        status=_status(
            {
                "containerStatuses": [
                    {"name": "other", "resources": {"requests": {"cpu": "9"}}},
                    {"name": "b", "allocatedResources": {"cpu": "9"}},
                ]
            }
        ),
    )
    assert asked(built, use_status=True) == {"cpu": 2000}


def test_only_sidecars_among_init_containers_can_have_been_resized() -> None:
    statuses = [
        {"name": "side", "resources": {"requests": {"cpu": "5"}}},
        {"name": "once", "resources": {"requests": {"cpu": "50"}}},
    ]
    built = pod(
        containers=[container("main", cpu="1")],
        init_containers=[container("side", sidecar=True, cpu="2"), container("once", cpu="3")],
        status=_status({"initContainerStatuses": statuses}),
    )
    assert asked(built, use_status=True) == {"cpu": 8000}
    assert asked(built) == {"cpu": 5000}


def test_pod_level_resize() -> None:
    wire: Wire = {
        "resources": {"requests": {"cpu": "3"}},
        "allocatedResources": {"cpu": "2", "memory": "1Gi"},
    }
    requests = {"cpu": "1", "memory": "512Mi"}
    built = pod(containers=[container()], resources={"requests": requests}, status=_status(wire))
    assert asked(built, use_status=True) == {"cpu": 3000, "memory": 1 << 30}
    infeasible = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    large = {"cpu": "9", "memory": "512Mi"}
    stuck = pod(
        containers=[container()], resources={"requests": large}, status=_status(wire, infeasible)
    )
    assert asked(stuck, use_status=True) == {"cpu": 3000, "memory": 1 << 30}
    assert asked(stuck) == {"cpu": 9000, "memory": 512 << 20}


@pytest.mark.parametrize(
    ("name", "scalar", "extended", "pod_level"),
    [
        ("cpu", False, False, True),
        ("memory", False, False, True),
        ("pods", False, False, False),
        ("storage", False, False, False),
        ("hugepages-1Gi", True, False, True),
        ("attachable-volumes-csi", True, False, False),
        ("example.com/gpu", True, True, False),
        ("kubernetes.io/thing", True, False, False),
        ("my.kubernetes.io/thing", True, False, False),
        ("requests.example.com/gpu", False, False, False),
    ],
)
def test_kinds_of_resources(name: str, scalar: bool, extended: bool, pod_level: bool) -> None:
    assert (is_scalar(name), is_extended(name), is_pod_level(name)) == (
        scalar, extended, pod_level,
    )  # fmt: skip


def test_units() -> None:
    amounts = parse_amounts(
        {"cpu": "1.0001", "memory": "1500m", "example.com/gpu": 2, "pods": "3", "odd": 1}
    )
    assert canonical(amounts) == {"cpu": 1001, "memory": 2, "example.com/gpu": 2}
    assert whole_units(amounts["pods"]) == 3
    assert parse_amounts(None) == parse_amounts({}) == {}


def test_amounts_beyond_an_int64_of_thousandths_stay_exact() -> None:
    amounts = canonical(
        parse_amounts({"memory": "16Pi", "example.com/gpu": 2**62, "ephemeral-storage": "100E"})
    )
    assert amounts == {
        "memory": 16 << 50, "example.com/gpu": 2**62, "ephemeral-storage": INT64_MAX,
    }  # fmt: skip


def test_what_is_no_quantity_is_refused() -> None:
    with pytest.raises(ValueError, match="lots"):
        pod_requests(pod(cpu="lots"))
