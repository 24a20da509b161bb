"""NodeResourcesFit at Filter: kube-scheduler's cases of what fits and why not."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.objects import Pod
from stowplan.errors import ConfigError
from stowplan.framework.status import SUCCESS, Status, unresolvable, unschedulable
from stowplan.queue.events import ActionType, Hint
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import asking, hint, in_place, made, run_filter

GPU, NIC, PAGES = "example.com/aaa", "example.com/bbb", "hugepages-2Mi"
NATIVE = "kubernetes.io/something"
STORAGE = "ephemeral-storage"


def amounts(cpu: int = 0, memory: int = 0, **more: int) -> dict[str, Any]:
    return {"cpu": f"{cpu}m", "memory": memory, **more}


def container(cpu: int = 0, memory: int = 0, **more: int) -> dict[str, Any]:
    return {"resources": {"requests": amounts(cpu, memory, **more)}}


def wants(
    *containers: dict[str, Any], init: list[dict[str, Any]] | None = None, **more: Any
) -> Pod:
    return pod(containers=list(containers), init_containers=init or [], **more)


def on_node(used: dict[str, Any], wanted: Pod, args: dict[str, Any] | None = None) -> Status:
    """A node of 10m cpu, 20 bytes and so on, on which a pod uses some."""
    offered = {GPU: 5, STORAGE: 20, PAGES: 5}
    cache = in_place(
        [node("n", cpu="10m", memory=20, pods=32, resources=offered)],
        [pod(containers=[{"resources": {"requests": used}}], node="n")],
    )
    return run_filter(made("NodeResourcesFit", args), wanted, cache)["n"]


def short(*names: str) -> Status:
    return unschedulable(*[f"Insufficient {name}" for name in names]).by("NodeResourcesFit")


def never(*names: str) -> Status:
    return unresolvable(*[f"Insufficient {name}" for name in names]).by("NodeResourcesFit")


@pytest.mark.parametrize(
    ("used", "wanted", "expected"),
    [
        pytest.param(amounts(10, 20), pod(containers=[{}]), SUCCESS, id="nothing-asked-fits"),
        pytest.param(amounts(10, 20), wants(container(1, 1)), short("cpu", "memory"), id="full"),
        pytest.param(
            amounts(8, 19), wants(container(1, 1), init=[container(3, 1)]), short("cpu"), id="init"
        ),
        pytest.param(
            amounts(8, 19),
            wants(container(1, 1), init=[container(3, 1), container(2, 1)]),
            short("cpu"),
            id="largest-init",
        ),
        pytest.param(
            amounts(9, 19),
            wants(container(1, 1), init=[container(1, 3), container(1, 2)]),
            short("memory"),
            id="largest-init-memory",
        ),
        pytest.param(
            amounts(9, 19),
            wants(container(1, 1), init=[container(1, 1), container(1, 1)]),
            SUCCESS,
            id="init-is-a-maximum-not-a-sum",
        ),
        pytest.param(amounts(5, 5), wants(container(1, 1)), SUCCESS, id="fits"),
        pytest.param(amounts(9, 5), wants(container(2, 1)), short("cpu"), id="only-memory-fits"),
        pytest.param(amounts(5, 19), wants(container(1, 2)), short("memory"), id="only-cpu-fits"),
        pytest.param(amounts(5, 19), wants(container(5, 1)), SUCCESS, id="exactly"),
        pytest.param({}, wants(container(**{GPU: 1})), SUCCESS, id="extended-fits"),
        pytest.param({}, wants(container(**{GPU: 10})), never(GPU), id="extended-never"),
        pytest.param({GPU: 5}, wants(container(**{GPU: 1})), short(GPU), id="extended-used-up"),
        pytest.param(
            {GPU: 2},
            wants(container(**{GPU: 3}), container(**{GPU: 3})),
            never(GPU),
            id="extended-sum-of-containers",
        ),
        pytest.param(
            {GPU: 2},
            wants(container(), init=[container(**{GPU: 3}), container(**{GPU: 3})]),
            SUCCESS,
            id="extended-init-fits",
        ),
        pytest.param(
            {GPU: 3},
            wants(container(), init=[container(**{GPU: 3}), container(**{GPU: 3})]),
            short(GPU),
            id="extended-init-used-up",
        ),
        pytest.param({}, wants(container(**{NIC: 1})), never(NIC), id="unknown-extended"),
        pytest.param({}, wants(container(**{NIC: 0})), SUCCESS, id="zero-of-an-unknown"),
        pytest.param({}, wants(container(**{NATIVE: 10})), never(NATIVE), id="native"),
        pytest.param({}, wants(container(**{PAGES: 10})), never(PAGES), id="hugepages"),
        pytest.param({PAGES: 3}, wants(container(**{PAGES: 3})), short(PAGES), id="hugepages-used"),
        pytest.param(
            {STORAGE: 10}, wants(container(**{STORAGE: 11})), short(STORAGE), id="storage"
        ),
        pytest.param({STORAGE: 10}, wants(container(**{STORAGE: 10})), SUCCESS, id="storage-fits"),
        pytest.param({}, wants(container(**{STORAGE: 25})), never(STORAGE), id="storage-never"),
        pytest.param(
            amounts(5, 5),
            wants(container(3, 3), overhead={"cpu": "2m", "memory": 12}),
            SUCCESS,
            id="overhead-fits",
        ),
        pytest.param(
            amounts(5, 5),
            wants(container(1, 1), overhead={"cpu": "1m", "memory": 15}),
            short("memory"),
            id="overhead-too-large",
        ),
        pytest.param(
            amounts(10, 20, **{GPU: 5}),
            wants(container(11, 1, **{GPU: 1, STORAGE: 1})),
            never("cpu", "memory", GPU),
            id="one-that-never-fits-is-enough",
        ),
        pytest.param(
            amounts(5, 5),
            wants(container(1, 1), resources={"requests": {"cpu": "7m", "memory": 2}}),
            short("cpu"),
            id="pod-level-cpu",
        ),
        pytest.param(
            amounts(5, 5),
            wants(container(9, 19), resources={"requests": {"cpu": "1m", "memory": 2}}),
            SUCCESS,
            id="pod-level-replaces-containers",
        ),
        pytest.param(
            amounts(0, 0),
            wants(container(1), init=[{**container(9), "restartPolicy": "Always"}]),
            SUCCESS,
            id="sidecar-fits",
        ),
        pytest.param(
            amounts(1, 0),
            wants(container(1), init=[{**container(9), "restartPolicy": "Always"}]),
            short("cpu"),
            id="sidecar-does-not",
        ),
    ],
)
def test_filter(used: dict[str, Any], wanted: Pod, expected: Status) -> None:
    assert on_node(used, wanted) == expected


def test_reasons_come_in_upstreams_order() -> None:
    wanted = wants(container(99, 99, **{NIC: 1, GPU: 9, STORAGE: 99}))
    status = on_node({}, wanted)
    assert status.reasons == tuple(
        f"Insufficient {name}" for name in ("cpu", "memory", STORAGE, GPU, NIC)
    )


@pytest.mark.parametrize("wanted", [pod(containers=[{}]), wants(container(1, 1))])
def test_no_room_for_another_pod(wanted: Pod) -> None:
    cache = in_place([node("n", pods=1)], [asking("n")])
    status = run_filter(made("NodeResourcesFit"), wanted, cache)["n"]
    assert status == unschedulable("Too many pods").by("NodeResourcesFit")


def test_all_reasons_together() -> None:
    cache = in_place([node("n", pods=1, cpu="2m")], [asking("n", cpu="1m")])
    status = run_filter(made("NodeResourcesFit"), wants(container(2)), cache)["n"]
    assert status == unschedulable("Too many pods", "Insufficient cpu").by("NodeResourcesFit")


def test_a_long_request_names_what_is_short_and_nothing_else() -> None:
    """More resources than a verdict has bits, of which some nodes offer some."""
    names = [f"example.com/r{number:02}" for number in range(40)]
    plenty = dict.fromkeys(names, 5)
    cache = in_place(
        [
            node("all", resources=plenty),
            node("full", pods=0, resources=plenty),
            node("short", resources={**plenty, names[35]: 1, names[2]: 3}),
            node("used", resources=plenty),
        ],
        [asking("used", **{names[38]: 2}), asking("short", **{names[2]: 1})],
    )
    wanted = asking(**dict.fromkeys(names, 4))
    assert run_filter(made("NodeResourcesFit"), wanted, cache) == {
        "all": SUCCESS,
        "full": unschedulable("Too many pods").by("NodeResourcesFit"),
        "short": never(names[2], names[35]),
        "used": short(names[38]),
    }


def test_a_long_request_of_what_no_node_offers() -> None:
    names = [f"example.com/r{number:02}" for number in range(40)]
    cache = in_place([node("a", resources={GPU: 1}), node("b")])
    wanted = asking(**{GPU: 1, **dict.fromkeys(names, 1)})
    assert run_filter(made("NodeResourcesFit"), wanted, cache) == {
        "a": never(*names),
        "b": never(GPU, *names),
    }


@pytest.mark.parametrize("amount", [2**62, 2**63 - 1, 2**70])
def test_requests_that_add_up_to_more_than_an_int64_fill_the_node(amount: int) -> None:
    crowd = [asking("n", cpu=f"{amount}m", memory=str(amount)) for _ in range(2)]
    cache = in_place([node("n", cpu="4", memory="8Gi")], crowd)
    plugin, wanted = made("NodeResourcesFit"), asking(cpu="1m", memory="1")
    assert run_filter(plugin, wanted, cache) == {"n": short("cpu", "memory")}
    for each in crowd:
        cache.remove_pod(each.uid)
    assert run_filter(plugin, wanted, cache) == {"n": SUCCESS}


def test_ignored_resources_are_not_compared() -> None:
    wanted = wants(container(1, 1, **{NIC: 2}))
    assert on_node({}, wanted, {"ignoredResources": [NIC]}) == SUCCESS
    assert on_node({}, wanted, {"ignoredResourceGroups": ["example.com"]}) == SUCCESS
    both = wants(container(1, 1, **{NIC: 2, "other.org/x": 1}))
    assert on_node({}, both, {"ignoredResourceGroups": ["example.com"]}) == never("other.org/x")
    assert on_node({}, wants(container(**{NATIVE: 1})), {"ignoredResources": [NATIVE]}) == (
        never(NATIVE)
    ), "only extended resources can be ignored"


# Queueing hints

SHRUNK = ActionType.UPDATE_POD_SCALE_DOWN


@pytest.mark.parametrize(
    ("mine", "old", "new", "expected"),
    [
        (asking(cpu="1"), asking("n", cpu="1"), None, Hint.QUEUE),
        (asking(), asking(), None, Hint.SKIP),
        (asking(cpu="1"), pod(nominated_node="n"), None, Hint.QUEUE),
        (asking(cpu="1"), pod(uid="b", cpu="2"), pod(uid="b", cpu="1"), Hint.SKIP),
        (
            asking(cpu="1"),
            pod(uid="b", memory=2, node="n"),
            pod(uid="b", memory=1, node="n"),
            Hint.SKIP,
        ),
        (
            asking(cpu="1"),
            pod(uid="b", cpu="2", node="n"),
            pod(uid="b", cpu="1", node="n"),
            Hint.QUEUE,
        ),
        (pod(uid="a", cpu="1"), pod(uid="a", cpu="2"), pod(uid="a", cpu="1"), Hint.QUEUE),
        (pod(uid="a", cpu="0"), pod(uid="a", cpu="2"), pod(uid="a", cpu="0"), Hint.QUEUE),
        (
            pod(containers=[{}], resources={"requests": {"cpu": "1"}}),
            pod(uid="b", containers=[{}], resources={"requests": {"cpu": "2"}}, node="n"),
            pod(uid="b", containers=[{}], resources={"requests": {"cpu": "1"}}, node="n"),
            Hint.QUEUE,
        ),
    ],
)
def test_hint_when_pods_go_or_shrink(mine: Pod, old: Pod, new: Pod | None, expected: Hint) -> None:
    action = ActionType.DELETE if new is None else SHRUNK
    assert hint(made("NodeResourcesFit"), "Pod", action, mine, old, new) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, {"memory": 1}, Hint.SKIP),
        (None, {"memory": 4, "gpu": 1}, Hint.QUEUE),
        (None, {"memory": 4, "gpu": 1, "pods": 0}, Hint.SKIP),
        ({"memory": 2, "gpu": 2}, {"memory": 2, "gpu": 1, "nic": 2}, Hint.SKIP),
        ({"memory": 2, "gpu": 1}, {"memory": 2, "gpu": 2}, Hint.QUEUE),
        ({"memory": 4, "gpu": 2}, {"memory": 1, "gpu": 2}, Hint.SKIP),
        ({"memory": 1, "gpu": 2}, {"memory": 4, "gpu": 2}, Hint.QUEUE),
        ({"memory": 4, "gpu": 1, "pods": 1}, {"memory": 4, "gpu": 1, "pods": 2}, Hint.QUEUE),
        ({"memory": 4, "gpu": 1, "cpu": 1}, {"memory": 4, "gpu": 1, "cpu": 2}, Hint.SKIP),
    ],
)
def test_hint_when_nodes_come_or_grow(
    old: dict[str, int] | None, new: dict[str, int], expected: Hint
) -> None:
    def offering(offers: dict[str, int]) -> Any:
        extended = {
            name: offers[short] for short, name in (("gpu", GPU), ("nic", NIC)) if short in offers
        }
        return node(
            "n",
            cpu=offers.get("cpu", 0),
            memory=offers["memory"],
            pods=offers.get("pods", 5),
            resources=extended,
        )

    wanted = asking("", **{"memory": 2, GPU: 1})
    action = ActionType.ADD if old is None else ActionType.UPDATE_NODE_ALLOCATABLE
    before = offering(old) if old is not None else None
    got = hint(made("NodeResourcesFit"), "Node", action, wanted, before, offering(new))
    assert got is expected


# Arguments


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"ignoredResources": ["a b"]}, "args.ignoredResources[0]: Invalid value"),
        ({"ignoredResourceGroups": ["a/b"]}, "resource group name can't contain '/'"),
        ({"scoringStrategy": {"type": "Most"}}, 'scoringStrategy.type: Unsupported value: "Most"'),
        (
            {"scoringStrategy": {"resources": [{"name": "cpu", "weight": -1}]}},
            "scoringStrategy.resources[0].weight: Invalid value: -1: resource weight of cpu "
            "not in valid range (0, 100]",
        ),
        (
            {
                "scoringStrategy": {
                    "resources": [{"name": "cpu"}, {"name": "memory", "weight": 101}]
                }
            },
            "scoringStrategy.resources[1].weight: Invalid value: 101",
        ),
        (
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            "requestedToCapacityRatio: Required value: must be specified when type is",
        ),
        (
            {
                "scoringStrategy": {
                    "type": "MostAllocated",
                    "requestedToCapacityRatio": {"shape": []},
                }
            },
            "requestedToCapacityRatio: Forbidden: must be nil when type is not",
        ),
        ({"unknown": 1}, ".args.unknown: unknown field"),
    ],
)
def test_wrong_arguments(args: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made("NodeResourcesFit", args)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([], "shape: Required value: at least one point must be specified"),
        ([(101, 1)], "shape[0].utilization: Invalid value: 101: not in valid range [0, 100]"),
        ([(0, 11)], "shape[0].score: Invalid value: 11: not in valid range [0, 10]"),
        ([(0, 1), (0, 2)], "shape[1].utilization: Invalid value: 0: values must be sorted"),
    ],
)
def test_wrong_shapes(shape: list[tuple[int, int]], message: str) -> None:
    points = [{"utilization": x, "score": y} for x, y in shape]
    strategy = {
        "type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": points},
    }  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        made("NodeResourcesFit", {"scoringStrategy": strategy})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"scoringStrategy": None, "ignoredResources": None},
        {"scoringStrategy": {"type": "MostAllocated"}},
    ],
)
def test_left_out_arguments_have_defaults(args: dict[str, Any]) -> None:
    assert on_node({}, wants(container(1, 1)), args) == SUCCESS
