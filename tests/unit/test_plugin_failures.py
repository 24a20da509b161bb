"""What a plugin raises: file and line in the message, the traceback once, repeats folded."""

from __future__ import annotations

import logging
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import stowplan
from stowplan import Cycle, EventHint, NodeView, Plugin, Pod, Status
from stowplan.api.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    Resource,
)
from stowplan.clock import VirtualClock
from stowplan.config.defaults import default_config
from stowplan.errors import ApiError, PluginError, StatusError
from stowplan.plugin_failures import PluginFailures, describe
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Failure
from stowplan.testing import MemoryCluster, as_manifest, node, pod
from stowplan.testing.playing import play

NO_RACKS: dict[str, str] = {}
HERE = "tests/unit/test_plugin_failures.py"


def line_of(text: str) -> int:
    """The number of the one line of this file that ends so."""
    lines = Path(__file__).read_text().splitlines()
    [found] = [number for number, line in enumerate(lines, 1) if line.endswith(text)]
    return found


def missing(*_: Any) -> Any:
    return NO_RACKS["rack"]  # here it breaks


def breaking(method: str, **members: Any) -> type[Plugin]:
    """A plugin that raises in one method."""
    function: Callable[..., Any] = lambda self, *args: missing(*args)  # noqa: E731 - it must have no name
    if method in ("filter", "score"):
        function = lambda self, pod, node: missing(pod)  # noqa: E731 - it must have no name
    return type("Racks", (Plugin,), {"name": "Racks", method: function, **members})


#: kube-scheduler's lines for failed attempts.
RETRYING = "Error scheduling pod; retrying"
POST_FILTERED = "Status after running PostFilter plugins for pod"


def broken_lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Errors about the plugin, without the lines that every failed attempt has."""
    return [
        each
        for each in caplog.records
        if each.levelno >= logging.ERROR
        and each.msg not in (RETRYING, POST_FILTERED)
        and "rack" in str(each.__dict__.get("kv"))
    ]


PLACE = f"KeyError: 'rack' ({HERE}:{line_of('# here it breaks')})"


@pytest.mark.parametrize(
    "method",
    [
        "pre_filter",
        "filter",
        "filter_columns",
        "pre_score",
        "score",
        "score_columns",
        "normalize",
        "reserve",
        "permit",
        "pre_bind_pre_flight",
        "pre_bind",
        "bind",
    ],
)
def test_every_point_tells_file_and_line_and_logs_the_traceback_once(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    members: dict[str, Any] = {}
    if method in ("pre_score", "normalize"):
        members["score"] = lambda self, pod, node: 1
    if method == "pre_bind_pre_flight":
        members["pre_bind"] = lambda self, *args: None
    plugin = breaking(method, **members)
    with MemoryCluster(plugin) as cluster:
        if method == "bind":
            binders = next(iter(cluster.engine.profiles.values())).at("bind")
            binders.sort(key=lambda each: each.name != "Racks")
        cluster.add_node("n1")
        cluster.add_node("n2")
        caplog.clear()
        cluster.add_pods(3)
        waiting = cluster.waiting
    assert [each.pod for each in waiting] == ["pod-0", "pod-1", "pod-2"]
    assert all(PLACE in each.message for each in waiting), waiting
    assert all("Racks" in each.message for each in waiting)
    [record] = broken_lines(caplog)
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], KeyError)
    assert record.exc_info[1].__context__ is None, "one traceback, not those of other tries as well"
    assert record.__dict__["kv"]["plugin"] == "Racks"


@pytest.mark.parametrize("method", ["pre_enqueue", "unreserve", "post_bind", "post_filter"])
def test_points_that_fail_without_a_message_of_the_pod_are_logged_the_same_way(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    members: dict[str, Any] = {}
    if method == "unreserve":
        members["permit"] = lambda self, *args: stowplan.unschedulable("no")
    with MemoryCluster(breaking(method, **members)) as cluster:
        cluster.add_node("n1")
        cluster.add_pods(3, cpu="1000" if method == "post_filter" else "1")
        cluster.settle()
    [record] = broken_lines(caplog)
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert PLACE in record.__dict__["kv"]["err"]


class Hinted(Plugin):
    name = "Hinted"

    def filter(self, pod: Pod, node: NodeView) -> bool:
        return False

    def events(self) -> list[EventHint]:
        node_added = stowplan.ClusterEvent("Node", stowplan.ActionType.ADD)
        return [EventHint(node_added, missing)]


def test_hints_that_raise_are_folded(caplog: pytest.LogCaptureFixture) -> None:
    with MemoryCluster(Hinted) as cluster:
        cluster.add_node("n1")
        cluster.add_pods(3)
        cluster.add_node("n2")
    [record] = broken_lines(caplog)
    assert PLACE in record.__dict__["kv"]["err"]


class Answers(Plugin):
    name = "Answers"
    given: Any = None

    def pre_enqueue(self, pod: Pod) -> Any:
        return self.given


def test_a_wrong_answer_tells_where_the_method_is(caplog: pytest.LogCaptureFixture) -> None:
    plugin = type("Wrong", (Answers,), {"given": False})
    with MemoryCluster(plugin) as cluster:
        cluster.add_pod("web")
        [waiting] = cluster.waiting
    where = f"{HERE}:{line_of('def pre_enqueue(self, pod: Pod) -> Any:')}"
    assert waiting.plugins == ("Answers",)
    assert waiting.message == (
        f'running PreEnqueue plugin "Answers": answered False; expected None or a Status ({where})'
    )


class HalfPoints(Plugin):
    name = "HalfPoints"

    def score(self, pod: Pod, node: NodeView) -> Any:
        return 0.5 if node.name == "n2" else 1


class HalfColumns(Plugin):
    name = "HalfColumns"

    def score_columns(self, cycle: Cycle, rows: Any, out: Any) -> None:
        out[rows] = rows * 0.5  # half


def test_a_score_that_is_no_integer_is_an_error() -> None:
    with MemoryCluster(HalfPoints) as cluster:
        cluster.add_node("n1")
        cluster.add_node("n2")
        verdict = cluster.decide("web")
    where = f"{HERE}:{line_of('def score(self, pod: Pod, node: NodeView) -> Any:')}"
    assert verdict.node == ""
    assert verdict.message == (
        'running Score plugins: plugin "HalfPoints" failed with: answered 0.5 for node n2; '
        f"expected an integer ({where})"
    )


def test_columns_refuse_fractions() -> None:
    with MemoryCluster(HalfColumns) as cluster:
        cluster.add_node("n1")
        cluster.add_node("n2")
        verdict = cluster.decide("web")
    assert f"this is float64; use // instead of / ({HERE}:{line_of('# half')})" in verdict.message


def test_judging_all_nodes_can_fail_alone() -> None:
    """A single feasible node is not scored by the scheduler, but the verdict has its scores."""
    with MemoryCluster(breaking("score")) as cluster:
        cluster.add_node("n1")
        verdict = cluster.decide("web")
    assert verdict.is_error
    assert (verdict.node, verdict.feasible) == ("", [])
    assert PLACE in verdict.message


def test_a_library_the_plugin_calls_is_not_blamed() -> None:
    with pytest.raises(ValueError, match="Expecting") as raised:
        _parse("{")
    assert describe(raised.value).endswith(f"({HERE}:{line_of('# our line')})")


def _parse(text: str) -> Any:
    import json

    return json.loads(text)  # our line


def test_repeats_become_one_line_in_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    failures = PluginFailures(clock)

    def fail(at: str) -> None:
        try:
            missing() if at == "missing" else math.sqrt(-1)
        except (KeyError, ValueError) as problem:
            failures.report("Plugin broke", problem, plugin="Racks", pod="default/web")

    for _ in range(5):
        fail("missing")
    fail("sqrt")
    clock.advance(10.0)
    fail("missing")
    told = [
        (bool(each.exc_info), each.__dict__["kv"].get("othersSinceLast")) for each in caplog.records
    ]
    assert told == [(True, None), (True, None), (False, 4)]
    assert failures.latest == PLACE


def test_an_error_status_is_counted_apart(caplog: pytest.LogCaptureFixture) -> None:
    """A CEL expression of a user fails: the pod's condition says so, and the pod is retried."""
    failures = PluginFailures(VirtualClock())
    failures.report("Plugin broke", StatusError("Racks", "Filter", "no such key"), plugin="Racks")
    assert (caplog.records, failures.latest) == ([], "")
    assert (failures.count, failures.statuses) == (0, 1)


def errors(caplog: pytest.LogCaptureFixture) -> dict[str, dict[str, str]]:
    """Warnings and errors of the log by message; each has been logged once."""
    told = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert not any(each.exc_info for each in told)
    found = {each.getMessage(): each.__dict__["kv"] for each in told}
    assert len(found) == len(told)
    return found


@pytest.mark.parametrize(
    ("method", "point", "logged"),
    [
        ("pre_filter", 'running PreFilter plugin "Racks"', RETRYING),
        ("filter", 'running "Racks" filter plugin', RETRYING),
        ("pre_score", 'running PreScore plugin "Racks"', RETRYING),
        ("reserve", 'running Reserve plugin "Racks"', RETRYING),
        ("permit", 'running Permit plugin "Racks"', RETRYING),
        ("pre_bind_pre_flight", 'running PreBindPreFlight plugin "Racks"', "Failed to bind pod"),
        ("pre_bind", 'running PreBind plugin "Racks"', "Failed to bind pod"),
        ("bind", 'running Bind plugin "Racks"', "Failed to bind pod"),
    ],
)
def test_an_error_status_is_not_a_broken_plugin(
    method: str, point: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer: Callable[..., Status] = lambda self, *args: stowplan.error("no rack")  # noqa: E731
    if method == "filter":
        answer = lambda self, pod, node: stowplan.error("no rack")  # noqa: E731
    members: dict[str, Any] = {method: answer}
    if method == "pre_score":
        members["score"] = lambda self, pod, node: 1
    if method == "pre_bind_pre_flight":
        members["pre_bind"] = lambda self, *args: None
    with MemoryCluster(type("Racks", (Plugin,), {"name": "Racks", **members})) as cluster:
        if method == "bind":
            binders = next(iter(cluster.engine.profiles.values())).at("bind")
            binders.sort(key=lambda each: each.name != "Racks")
        cluster.add_node("n1")
        cluster.add_node("n2")
        caplog.clear()
        cluster.add_pod("web")
        [waiting] = cluster.waiting
        assert cluster.engine.failures.count == 0
    assert waiting.message == f"{point}: no rack"
    assert {text: kv["err"] for text, kv in errors(caplog).items()} == {logged: f"{point}: no rack"}


def test_an_error_of_the_api_server_before_binding_is_not_a_broken_plugin(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def refuse(self: Plugin, *args: Any) -> None:
        raise ApiError("etcdserver: no leader")

    with MemoryCluster(type("Racks", (Plugin,), {"name": "Racks", "pre_bind": refuse})) as cluster:
        cluster.add_node("n1")
        caplog.clear()
        cluster.add_pod("web")
        assert cluster.engine.failures.count == 0
    [(text, kv)] = errors(caplog).items()
    assert text == "Failed to bind pod"
    assert kv["err"] == 'running PreBind plugin "Racks": etcdserver: no leader'


def test_an_error_status_of_post_filter_is_logged_in_upstreams_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    members = {"post_filter": lambda self, cycle, diagnosis: stowplan.error("no rack")}
    with MemoryCluster(type("Racks", (Plugin,), {"name": "Racks", **members})) as cluster:
        cluster.add_node("n1")
        caplog.clear()
        cluster.add_pod("web", cpu="1000")
        assert cluster.engine.failures.count == 0
    assert {text: kv["status"] for text, kv in errors(caplog).items()} == {POST_FILTERED: "no rack"}


def test_an_error_status_of_pre_enqueue_is_logged_in_upstreams_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plugin = type("Wrong", (Answers,), {"given": stowplan.error("no rack")})
    with MemoryCluster(plugin) as cluster:
        cluster.add_pod("web")
        assert cluster.engine.failures.count == 0
    told = {each.getMessage(): each.__dict__["kv"] for each in caplog.records}
    assert told["Unexpected error running PreEnqueue plugin"]["err"] == "no rack"


def test_a_code_that_a_point_does_not_allow_is_a_broken_plugin(
    caplog: pytest.LogCaptureFixture,
) -> None:
    members = {"filter": lambda self, pod, node: stowplan.wait("for a rack")}
    with MemoryCluster(type("Racks", (Plugin,), {"name": "Racks", **members})) as cluster:
        cluster.add_node("n1")
        cluster.add_pod("web")
    [record] = broken_lines(caplog)
    assert record.msg == "Plugin broke"


NEAR = [{"key": "rack", "operator": "Near", "values": ["a"]}]
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
UNREADABLE: dict[str, dict[str, Any]] = {
    "NodeAffinity": {
        "affinity": {
            "nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {"matchExpressions": NEAR}}]}
        }
    },
    "PodTopologySpread": {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "rack",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchExpressions": NEAR},
            }
        ]
    },
    "VolumeBinding": {
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    },
}


@pytest.mark.parametrize("plugin", UNREADABLE)
def test_in_tree_plugins_that_cannot_read_an_object_are_not_broken(
    plugin: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Objects that no API server takes today, but may have stored before."""
    engine = build_engine(default_config())
    handlers = EventHandlers(engine)
    for name in ("n1", "n2"):
        handlers.add_node(node(name, labels={"rack": "a"}))
    put(
        handlers,
        STORAGE_CLASSES,
        metadata={"name": "late"},
        provisioner="kubernetes.io/no-provisioner",
        volumeBindingMode="WaitForFirstConsumer",
    )
    size = {"storage": "1Gi"}
    put(
        handlers,
        PERSISTENT_VOLUMES,
        metadata={"name": "disk"},
        spec={"storageClassName": "late", "capacity": size, "accessModes": ["ReadWriteOnce"]},
        status={"phase": "Available"},
    )
    put(
        handlers,
        PERSISTENT_VOLUME_CLAIMS,
        metadata={"name": "data", "namespace": "default"},
        spec={
            "storageClassName": "late",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": size},
            "selector": {"matchExpressions": NEAR},
        },
    )
    made = as_manifest(pod("web"))
    made["spec"] |= UNREADABLE[plugin]
    handlers.add_pod(msgspec.convert(made, Pod))
    failure = engine.attempt()
    assert isinstance(failure, Failure)
    assert f'"{plugin}"' in failure.message
    assert failure.reason == "SchedulerError"
    assert (engine.failures.count, engine.failures.statuses) == (0, 1)
    assert errors(caplog) == {}, "the loop logs the attempt"


def put(handlers: EventHandlers, resource: Resource[Any], **members: Any) -> None:
    handlers.set_object(resource, msgspec.convert(members, resource.type))


def test_a_scenario_names_the_plugin_that_keeps_it_from_resting() -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.create_node("n1")
        await cluster.create_pod("web")
        await cluster.settle()

    with pytest.raises(AssertionError) as told:
        play(scenario, [breaking("filter")])
    assert f'running "Racks" filter plugin: {PLACE}' in str(told.value)
    assert "did not become quiet" not in str(told.value)


def test_an_expectation_that_fails_with_a_plugin_names_it() -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.create_node("n1")
        await cluster.create_pod("web")
        await cluster.sleep(5)
        assert await cluster.node_of("web") == "n1"

    with pytest.raises(AssertionError, match='a plugin failed: running "Racks" filter plugin'):
        play(scenario, [breaking("filter")])


def test_events_that_raise_are_told_when_the_scheduler_is_made() -> None:
    with pytest.raises(PluginError, match=r'"Racks": KeyError: .*test_plugin_failures.py:\d+\)'):
        MemoryCluster(breaking("events", filter=lambda self, pod, node: Status))


def simulate(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stowplan", "simulate", "scenario.yaml"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_simulate_names_plugin_file_and_line_and_logs_one_traceback(tmp_path: Path) -> None:
    (tmp_path / "racks.py").write_text(
        "import stowplan\n\n\n@stowplan.filter\ndef racks(pod, node):\n"
        '    return node.labels["rack"] == "a"\n'
    )
    (tmp_path / "scenario.yaml").write_text(
        "name: racks\nplugins: [racks.py:racks]\ncluster:\n  nodes: [{name: n1}]\nsteps:\n"
        "- create:\n    pods: [{name: web$i, count: 8}]\n"
    )
    ended = simulate(tmp_path)
    assert ended.returncode == 1
    [failed] = [line for line in ended.stdout.splitlines() if line.startswith("FAIL")]
    assert "running \"racks\" filter plugin: KeyError: 'rack' (racks.py:6)" in failed
    assert "did not become quiet" not in failed
    assert ended.stderr.count("Traceback (most recent call last)") == 1


def test_simulate_ends_early_and_tells_a_wrong_answer_once(tmp_path: Path) -> None:
    (tmp_path / "racks.py").write_text(
        "import stowplan\n\n\n@stowplan.score\ndef racks(pod, node):\n    return 150\n"
    )
    (tmp_path / "scenario.yaml").write_text(
        "name: racks\nplugins: [racks.py:racks]\ncluster:\n  nodes: [{name: n1}, {name: n2}]\n"
        "steps:\n- create:\n    pods: [{name: web$i, count: 2}]\n"
    )
    ended = simulate(tmp_path)
    assert ended.returncode == 1
    [line] = [each for each in ended.stderr.splitlines() if RETRYING not in each]
    assert "returns an invalid score 150" in line
    [failed] = [line for line in ended.stdout.splitlines() if line.startswith("FAIL")]
    assert failed.endswith("(racks.py:4); 2 pods wait for their next attempt after 16 s")
