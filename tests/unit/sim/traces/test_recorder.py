"""Recordings of kube-scheduler-simulator's recorder."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stowplan.errors import ConfigError
from stowplan.sim.traces.model import RUN_SECONDS, Arrival, Event, Removal, Revision
from stowplan.sim.traces.recorder import read_recording

EXAMPLES = Path(__file__).parents[4] / "examples" / "traces"


def line(time: str, event: str, kind: str, name: str, **more: Any) -> str:
    resource = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **more}
    return json.dumps({"time": f"2024-05-01T{time}Z", "event": event, "resource": resource})


def events(tmp_path: Path, *lines: str, **options: Any) -> list[Event]:
    file = tmp_path / "recording.jsonl"
    file.write_text("\n".join(lines))
    return list(read_recording(file, **options).events())


def test_the_example() -> None:
    trace = read_recording(EXAMPLES / "recording.jsonl")
    assert (trace.pods, trace.nodes) == (3, 3)
    assert (trace.reading.read, trace.reading.broken) == (14, 0)
    made = list(trace.events())
    assert made == list(trace.events())
    told = []
    for event in made:
        if isinstance(event, Arrival | Revision):
            told.append((event.at, type(event).__name__, event.manifest["metadata"]["name"]))
        else:
            assert isinstance(event, Removal)
            told.append((event.at, "Removal", event.name))
    assert told == [
        (0.1, "Arrival", "node-a"),
        (0.2, "Arrival", "node-b"),
        (0.3, "Arrival", "standing"),
        (10.0, "Arrival", "job-1"),
        (75.0, "Removal", "job-1"),
        (80.0, "Revision", "node-b"),
        (90.0, "Arrival", "job-2"),
        (120.0, "Arrival", "node-c"),
        (180.0, "Removal", "standing"),
    ]
    job = next(event for event in made if isinstance(event, Arrival) and event.run_s)
    assert job.run_s == 60.0
    assert job.manifest["metadata"] == {
        "name": "job-1",
        "namespace": "default",
        "annotations": {RUN_SECONDS: "60"},
    }
    assert job.manifest["spec"].keys() == {"containers", "schedulerName"}
    assert "status" not in job.manifest


def test_pods_stay_where_they_were_unless_told_otherwise() -> None:
    def places(**options: Any) -> dict[str, str]:
        trace = read_recording(EXAMPLES / "recording.jsonl", **options)
        pods = [each.manifest for each in trace.arrivals() if each.manifest["kind"] == "Pod"]
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}

    assert places() == {"standing": "node-a", "job-1": "", "job-2": ""}
    assert places(reschedule=True) == {"standing": "", "job-1": "", "job-2": ""}


def test_heartbeats_are_no_changes(tmp_path: Path) -> None:
    def beat(time: str, ready: str) -> str:
        conditions = [{"type": "Ready", "status": ready, "lastHeartbeatTime": time}]
        return line(time, "Update", "Node", "n", status={"conditions": conditions})

    made = events(
        tmp_path, beat("10:00:00", "True"), beat("10:05:00", "True"), beat("10:10:00", "False")
    )
    assert [type(event) for event in made] == [Arrival, Revision]
    assert [event.at for event in made] == [0.0, 600.0]


def test_what_was_over_before_takes_no_part(tmp_path: Path) -> None:
    made = events(
        tmp_path,
        line("10:00:00", "Add", "Pod", "old", status={"phase": "Succeeded"}),
        line("10:00:01", "Delete", "Pod", "old"),
        line("10:00:02", "Delete", "Pod", "never-seen"),
    )
    assert made == []


def test_standing_objects_and_unknown_kinds_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    lines = [
        line("10:00:00", "Add", "Namespace", "kube-system"),
        line("10:00:00", "Add", "Widget", "w"),
        line("10:00:00", "Add", "Namespace", "prod"),
    ]
    file.write_text("\n".join(lines))
    trace = read_recording(file)
    assert [each.manifest["metadata"]["name"] for each in trace.arrivals()] == ["prod"]
    assert (trace.reading.read, trace.reading.left_out) == (2, 1)


def test_a_pod_that_comes_again_under_its_name(tmp_path: Path) -> None:
    made = events(
        tmp_path,
        line("10:00:00", "Add", "Pod", "a"),
        line("10:00:05", "Delete", "Pod", "a"),
        line("10:00:06", "Add", "Pod", "a"),
    )
    assert [type(event) for event in made] == [Arrival, Removal, Arrival]


def test_times_never_go_back(tmp_path: Path) -> None:
    first, second, third = (
        line("10:00:00.5", "Add", "Node", "a"),
        line("10:00:00.2", "Add", "Node", "b"),
        line("09:00:00", "Add", "Node", "c"),
    )
    assert [event.at for event in events(tmp_path, first, second)] == [0.0, 0.0]
    with pytest.raises(ConfigError, match="its time is 3600 s before that of an earlier line"):
        events(tmp_path, first, second, third)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("{", "is not a JSON object: "),
        ("[]", "is not a JSON object: "),
        ("{}", "`time` is missing"),
        ('{"time": "2024-05-01T10:00:00Z"}', "`event` is None; expected Add, Update or Delete"),
        ('{"time": "2024-05-01T10:00:00Z", "event": "Add"}', "`resource` is missing"),
        ('{"time": "noon", "event": "Add", "resource": {}}', "`time`: `noon` is not a time"),
        (
            '{"time": "2024-05-01T10:00:00Z", "event": "Add", "resource": {}}',
            "resource has no apiVersion, kind or metadata",
        ),
        (
            '{"time": "2024-05-01T10:00:00Z", "event": "Add", "resource": '
            '{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}}}',
            "resource has no metadata.name",
        ),
        (
            '{"time": "2024-05-01T10:00:00Z", "event": "Add", "resource": '
            '{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, '
            '"spec": []}}',
            "resource `spec` is not a mapping",
        ),
        (
            '{"time": "2024-05-01T10:00:00Z", "event": "Add", "resource": '
            '{"apiVersion": "v1", "kind": "Pod", "metadata": {}}}',
            "Pod: the object has no metadata.name",
        ),
        (
            '{"time": "2024-05-01T10:00:00Z", "event": "Update", "resource": '
            '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": '
            '{"containers": [{"name": ["c"]}]}}}',
            "Pod: Expected `str`, got `array` - at `$.spec.containers[0].name`",
        ),
        (
            '{"time": "2024-05-01T10:00:00Z", "event": "Update", "resource": '
            '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": '
            '{"containers": [{"name": "c", "resources": {"requests": {"cpu": "many"}}}]}}}',
            "Pod: ",
        ),
    ],
)
def test_broken_lines(tmp_path: Path, broken: str, reason: str) -> None:
    good, after = line("10:00:00", "Add", "Node", "a"), line("10:00:01", "Add", "Node", "b")
    with pytest.raises(ConfigError) as caught:
        events(tmp_path, good, "", broken, after)
    assert str(caught.value).startswith(f"{tmp_path}/recording.jsonl:3: {reason}")
    assert len(events(tmp_path, good, "", broken, after, skip_broken=True)) == 2


def test_gzipped(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl.gz"
    file.write_bytes(gzip.compress((EXAMPLES / "recording.jsonl").read_bytes()))
    assert len(list(read_recording(file).events())) == 9


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["time", "event", "resource", "kind", "apiVersion", "metadata", "name", "spec"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(json_values, max_size=6))
def test_any_json_is_used_or_counted(tmp_path: Path, values: list[Any]) -> None:
    file = tmp_path / "recording.jsonl"
    good = line("10:00:00", "Add", "Node", "a")
    file.write_text("\n".join([good, *(json.dumps(value) for value in values)]))
    trace = read_recording(file, skip_broken=True)
    assert trace.reading.read + trace.reading.left_out + trace.reading.broken == 1 + len(values)
    made = list(trace.events())
    assert [event.at for event in made] == sorted(event.at for event in made)


@pytest.mark.parametrize(
    ("event", "kind", "metadata"),
    [
        ("Delete", "Pod", {"namespace": []}),
        ("Delete", "ResourceClaim", {"ownerReferences": True}),
        ("Add", "DaemonSet", {"namespace": ["a"]}),
        ("Update", "CronJob", {"labels": [1]}),
    ],
)
def test_metadata_of_wrong_types_is_a_broken_line(
    tmp_path: Path, event: str, kind: str, metadata: dict[str, Any]
) -> None:
    bad = line("10:00:00", event, kind, "x", metadata={"name": "x", **metadata})
    file = tmp_path / "recording.jsonl"
    file.write_text("\n".join((bad, line("10:00:01", "Add", "Node", "n"))))
    trace = read_recording(file, skip_broken=True)
    assert trace.reading.broken == 1
    assert [type(event) for event in trace.events()] == [Arrival]
