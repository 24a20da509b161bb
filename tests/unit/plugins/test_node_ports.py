"""NodePorts: kube-scheduler's cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stowplan.api.objects import Pod
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.views import Overlay
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep
from stowplan.framework.status import SKIP, unschedulable
from stowplan.queue.events import ActionType, Hint
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import hint, in_place, made, run_filter

TAKEN = unschedulable("node(s) didn't have free ports for the requested pod ports").by("NodePorts")


def _port(text: str) -> dict[str, Any]:
    """`UDP/127.0.0.1/8080`; protocol and address may be empty."""
    protocol, address, port = text.split("/")
    wire: dict[str, Any] = {"containerPort": 80, "hostPort": int(port)}
    if protocol:
        wire["protocol"] = protocol
    if address:
        wire["hostIP"] = address
    return wire


def having(*ports: str, **more: Any) -> Pod:
    containers = [{"name": f"c{i}", "ports": [_port(text)]} for i, text in enumerate(ports)]
    return pod(containers=containers or [{"name": "c"}], **more)


@pytest.mark.parametrize(
    ("wanted", "taken", "fits"),
    [
        pytest.param(["UDP/127.0.0.1/8080"], ["UDP/127.0.0.1/9090"], True, id="other-port"),
        pytest.param(["UDP/127.0.0.1/8080"], ["UDP/127.0.0.1/8080"], False, id="same-udp"),
        pytest.param(["TCP/127.0.0.1/8080"], ["TCP/127.0.0.1/8080"], False, id="same-tcp"),
        pytest.param(["TCP/127.0.0.1/8080"], ["TCP/127.0.0.2/8080"], True, id="other-address"),
        pytest.param(["TCP/127.0.0.1/8080"], ["UDP/127.0.0.1/8080"], True, id="other-protocol"),
        pytest.param(
            ["UDP/127.0.0.1/8000", "UDP/127.0.0.1/8080"],
            ["UDP/127.0.0.1/8080"],
            False,
            id="second-of-two-wanted",
        ),
        pytest.param(
            ["TCP/127.0.0.1/8001", "UDP/127.0.0.1/8080"],
            ["TCP/127.0.0.1/8001", "UDP/127.0.0.1/8081"],
            False,
            id="first-of-two-taken",
        ),
        pytest.param(["TCP/0.0.0.0/8001"], ["TCP/127.0.0.1/8001"], False, id="wants-all-addresses"),
        pytest.param(["TCP/127.0.0.1/8001"], ["TCP/0.0.0.0/8001"], False, id="all-addresses-taken"),
        pytest.param(["TCP//8001"], ["TCP/127.0.0.1/8001"], False, id="no-address-means-all"),
        pytest.param(["/127.0.0.1/8001"], ["TCP/127.0.0.1/8001"], False, id="no-protocol-is-tcp"),
        pytest.param(["/127.0.0.1/8001"], ["UDP//8001"], True, id="no-protocol-is-not-udp"),
        pytest.param(["TCP/10.0.10.10/8001"], ["TCP/0.0.0.0/8001"], False, id="any-other-address"),
        pytest.param(["TCP//8001"], ["UDP//8001"], True, id="all-addresses-of-another-protocol"),
        pytest.param(["TCP//8001"], [], True, id="nothing-taken"),
    ],
)
def test_filter(wanted: list[str], taken: list[str], fits: bool) -> None:
    cache = in_place([node("n"), node("free")], [having(*taken, node="n"), having(node="free")])
    answers = run_filter(made("NodePorts"), having(*wanted), cache)
    assert answers["free"].is_success
    assert answers["n"].is_success is fits
    if not fits:
        assert answers["n"] == TAKEN


def _init(policy: str | None) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "i", "ports": [_port("TCP//8001")]}
    return container | ({"restartPolicy": policy} if policy else {})


@pytest.mark.parametrize(("policy", "counts"), [("Always", True), (None, False), ("Never", False)])
def test_init_containers_count_if_they_keep_running(policy: str | None, counts: bool) -> None:
    sidecar = pod(init_containers=[_init(policy)])
    plugin, cache = made("NodePorts"), in_place([node("n")], [having("TCP//8001", node="n")])
    cycle = Cycle(cache.table, compile_pod(sidecar))
    assert plugin.pre_filter(cycle) == (None if counts else SKIP)
    assert run_filter(plugin, sidecar, cache)["n"].is_success is not counts
    standing = in_place([node("n")], [pod(init_containers=[_init(policy)], node="n")])
    assert run_filter(plugin, having("TCP//8001"), standing)["n"].is_success is not counts


def test_without_host_ports_it_is_skipped() -> None:
    cache = in_place([node("n")])
    internal = pod(containers=[{"name": "c", "ports": [{"containerPort": 80}]}])
    answer = made("NodePorts").pre_filter(Cycle(cache.table, compile_pod(internal)))
    assert answer == SKIP


def test_a_port_that_two_pods_share_is_free_when_both_are_gone() -> None:
    first, second = having("TCP//80", node="n"), having("TCP//80", node="n")
    cache = in_place([node("n")], [first, second])
    plugin = made("NodePorts")
    cache.remove_pod(first.uid)
    assert run_filter(plugin, having("TCP//80"), cache)["n"] == TAKEN
    cache.remove_pod(second.uid)
    assert run_filter(plugin, having("TCP//80"), cache)["n"].is_success
    assert len(cache.table.used_ports) == 0


def test_an_assumed_pod_takes_its_ports_at_once() -> None:
    cache, mine = in_place([node("n")]), having("TCP//80")
    cache.assume(mine, "n", compile_pod(mine))
    assert run_filter(made("NodePorts"), having("TCP//80"), cache)["n"] == TAKEN
    cache.forget(mine.uid)
    assert run_filter(made("NodePorts"), having("TCP//80"), cache)["n"].is_success


def test_what_if() -> None:
    """Nominated pods take their ports, and victims give theirs back."""
    victim = having("TCP//80", node="a")
    cache = in_place([node("a"), node("b"), node("c")], [victim, having("TCP//80", node="c")])
    table = cache.table
    a, b, c = (table.row_of[name] for name in "abc")
    nominated, gone = compile_pod(having("TCP/10.0.0.1/80")), table.pods[a][victim.uid]
    overlay = Overlay(table, {b: [nominated]}, {a: [gone]})
    cycle, step = Cycle(table, compile_pod(having("TCP//80"))), FilterStep(made("NodePorts"))
    column = np.zeros(table.capacity, np.int32)
    step.fill(cycle, table.live_rows, column, overlay)
    assert column[[a, b, c]].tolist() == [0, 1, 1]
    assert [step.status_of_row(cycle, row, overlay).is_success for row in (a, b, c)] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("deleted", "expected"),
    [
        pytest.param(having("TCP//8080", node="n"), Hint.QUEUE, id="had-the-port"),
        pytest.param(having("UDP//8080", node="n"), Hint.SKIP, id="another-protocol"),
        pytest.param(having("TCP//8081", node="n"), Hint.SKIP, id="another-port"),
        pytest.param(having(node="n"), Hint.SKIP, id="no-ports"),
        pytest.param(having("TCP//8080"), Hint.SKIP, id="stood-nowhere"),
        pytest.param(having("TCP//8080", nominated_node="n"), Hint.QUEUE, id="nominated"),
        pytest.param("not a pod", Hint.QUEUE, id="unknown"),
    ],
)
def test_comes_back_when_its_port_is_free(deleted: object, expected: Hint) -> None:
    mine = having("TCP/10.0.0.1/8080")
    assert hint(made("NodePorts"), "Pod", ActionType.DELETE, mine, deleted, None) is expected


def test_comes_back_with_any_new_node() -> None:
    plugin, mine = made("NodePorts"), having("TCP//8080")
    assert hint(plugin, "Node", ActionType.ADD, mine, None, node()) is Hint.QUEUE
    assert hint(plugin, "Node", ActionType.UPDATE_NODE_LABEL, mine, node(), node()) is None
    assert hint(plugin, "Pod", ActionType.UPDATE_POD_LABEL, mine, mine, mine) is None
