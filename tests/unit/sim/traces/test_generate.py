"""Synthetic traces: what a description gives, and that it always gives the same."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.errors import ConfigError
from stowplan.sim.traces.generate import generate
from stowplan.sim.traces.model import RUN_SECONDS, Arrival, Disruption, Trace
from stowplan.sim.traces.presets import PRESETS
from tests.examples import examples

EXAMPLES = Path(__file__).parents[4] / "examples" / "traces"


def as_bytes(trace: Trace) -> bytes:
    return msgspec.json.encode([list(trace.objects()), list(trace.events())])


def pods(trace: Trace) -> list[dict[str, Any]]:
    return [each.manifest for each in trace.arrivals()]


def disruptions(trace: Trace) -> list[Disruption]:
    return [each for each in trace.events() if isinstance(each, Disruption)]


def one_app(**fields: Any) -> dict[str, Any]:
    return {
        "pools": [{"name": "node", "count": 2}],
        "applications": [{"name": "web", **fields}],
        "arrivals": {"kind": "uniform", "count": 4, "over": "40s"},
    }


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_whole_and_in_order(preset: str) -> None:
    trace = generate({"preset": preset})
    events = list(trace.events())
    assert [event.at for event in events] == sorted(event.at for event in events)
    arrivals = [event for event in events if isinstance(event, Arrival)]
    assert len(arrivals) == trace.pods
    names = [event.manifest["metadata"]["name"] for event in arrivals]
    assert len(set(names)) == len(names)
    nodes = [each for each in trace.objects() if each["kind"] == "Node"]
    assert len(nodes) == trace.nodes


@pytest.mark.parametrize("preset", PRESETS)
def test_a_trace_can_be_walked_again(preset: str) -> None:
    trace = generate({"preset": preset, "seed": 3})
    assert as_bytes(trace) == as_bytes(trace) == as_bytes(generate({"preset": preset, "seed": 3}))
    assert as_bytes(trace) != as_bytes(generate({"preset": preset, "seed": 4}))


def test_the_bytes_are_the_same_on_every_machine() -> None:
    """Pinned: a change here changes everybody's results."""
    made = as_bytes(generate({"preset": "mixed", "seed": 1}))
    assert hashlib.sha256(made).hexdigest()[:16] == "1cb1ca9a4b9bd59e"


_PRINT = (
    "import sys, msgspec; from pathlib import Path; from stowplan.sim.traces import load_trace;"
    "trace = load_trace(Path(sys.argv[1]));"
    "sys.stdout.buffer.write(msgspec.json.encode([list(trace.objects()), list(trace.events())]))"
)


def test_hash_seeds_do_not_matter() -> None:
    def printed(hash_seed: str) -> bytes:
        command = [sys.executable, "-c", _PRINT, str(EXAMPLES / "mixed.yaml")]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(command, env=environment, check=True, capture_output=True).stdout

    assert printed("1") == printed("2")


def test_sizes_are_shared_out() -> None:
    trace = generate({"preset": "mixed", "nodeCount": 1000, "podCount": 5000})
    assert (trace.nodes, trace.pods) == (1000, 5000)
    counts = Counter(each["metadata"]["name"].split("-")[0] for each in trace.objects())
    assert counts["general"] == 750
    assert counts["memory"] == 150
    assert counts["gpu"] == 100
    assert len(pods(trace)) == 5000


def test_pods_of_an_application_share_their_spec() -> None:
    made = pods(generate({"preset": "small", "podCount": 1000}))
    assert len({id(each["spec"]) for each in made}) <= 9
    assert len({id(each["metadata"]["labels"]) for each in made}) == 1


def test_other_durations_do_not_move_arrivals() -> None:
    short = generate(one_app(cpu={"uniform": ["100m", 1]}, duration="10s") | {"seed": 5})
    long = generate(
        one_app(cpu={"uniform": ["100m", 1]}, duration={"uniform": [1, 9]}) | {"seed": 5}
    )
    assert [each["spec"] for each in pods(short)] == [each["spec"] for each in pods(long)]


def test_a_pod_in_full() -> None:
    description = one_app(
        cpu="250m",
        memory="1Gi",
        gpu=1,
        duration="90s",
        labels={"tier": "front", "version": 2},
        priorityClass="high",
        nodeSelector={"disk": "ssd"},
        tolerations=["dedicated=web:NoSchedule", "spot"],
        spread={"by": "zone", "hard": True, "maxSkew": 3},
        apart="node",
        together={"by": "rack", "hard": True},
        spec={"terminationGracePeriodSeconds": 5},
    )
    trace = generate(description | {"priorityClasses": [{"name": "high", "value": 100}]})
    first = next(trace.arrivals())
    assert first.run_s == 90.0
    same = {"labelSelector": {"matchLabels": {"app": "web"}}}
    node_term = {"topologyKey": "kubernetes.io/hostname", **same}
    preferred = [{"weight": 100, "podAffinityTerm": node_term}]
    required = [{"topologyKey": "rack", **same}]
    assert first.manifest == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-0",
            "namespace": "default",
            "labels": {"app": "web", "tier": "front", "version": "2"},
            "annotations": {RUN_SECONDS: "90"},
        },
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "registry.k8s.io/pause:3.10",
                    "resources": {
                        "requests": {"cpu": "250m", "memory": "1Gi", "nvidia.com/gpu": "1"},
                        "limits": {"nvidia.com/gpu": "1"},
                    },
                }
            ],
            "restartPolicy": "Never",
            "priorityClassName": "high",
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [
                {"key": "dedicated", "operator": "Equal", "value": "web", "effect": "NoSchedule"},
                {"key": "spot", "operator": "Exists"},
            ],
            "topologySpreadConstraints": [
                {
                    "maxSkew": 3,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    **same,
                }
            ],
            "affinity": {
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
                "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred},
            },
            "terminationGracePeriodSeconds": 5,
        },
    }


def test_a_cluster_in_full() -> None:
    pool = {
        "name": "big",
        "count": 3,
        "cpu": 8,
        "memory": "16Gi",
        "gpu": 2,
        "pods": 20,
        "resources": {"example.com/port": 4},
        "zones": ["a", "b"],
        "labels": {"disk": "ssd"},
        "taints": ["dedicated=web:NoSchedule"],
    }
    made = list(
        generate(
            {"pools": [pool], "applications": [{"name": "x", "namespace": "prod", "initial": 1}]}
        ).objects()
    )
    assert made[0] == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}}
    offers = {
        "cpu": "8",
        "memory": "16Gi",
        "nvidia.com/gpu": "2",
        "example.com/port": "4",
        "pods": "20",
    }
    assert [each["metadata"]["labels"]["topology.kubernetes.io/zone"] for each in made[1:]] == [
        *("a", "b", "a")
    ]
    assert made[3] == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "big-2",
            "labels": {
                "kubernetes.io/hostname": "big-2",
                "topology.kubernetes.io/zone": "a",
                "disk": "ssd",
            },
        },
        "spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule", "value": "web"}]},
        "status": {"capacity": offers, "allocatable": offers},
    }


@pytest.mark.parametrize("kind", ["poisson", "uniform", "burst", "diurnal"])
def test_arrivals_come_as_described(kind: str) -> None:
    arrivals = {"kind": kind, "count": 2000, "over": "10h", "every": "6m", "size": 20}
    arrivals |= {"period": "10h", "peak": "5h", "swing": 1}
    trace = generate(one_app() | {"arrivals": arrivals})
    moments = [each.at for each in trace.arrivals()]
    assert len(moments) == 2000
    assert moments == sorted(moments)
    assert 30_000 < moments[-1] < 42_000
    middle = sum(9_000 < at < 27_000 for at in moments)
    if kind == "diurnal":
        assert middle > 1500
    else:
        assert 700 < middle < 1300
    if kind == "burst":
        assert all(number % 20 == 0 for number in Counter(moments).values())


def test_all_at_once() -> None:
    trace = generate(one_app() | {"arrivals": {"count": 5}})
    assert [each.at for each in trace.arrivals()] == [0.0] * 5


def test_replicas_come_together_and_are_counted_as_pods() -> None:
    trace = generate(one_app(replicas=3))
    assert Counter(each.at for each in trace.arrivals()) == {0.0: 3, 10.0: 1}


def test_initial_pods_are_there_first() -> None:
    trace = generate(one_app(initial=5, weight=0) | {"arrivals": {"kind": "uniform", "count": 0}})
    assert [each.at for each in trace.arrivals()] == [0.0] * 5


TROUBLED = {
    "name": "node",
    "count": 20,
    "failures": {"meanTimeBetween": "2h", "meanTimeToRepair": "10m"},
    "drains": {"every": "7m", "lasts": "5m"},
}


@given(st.integers(0, 2**31))
def test_a_node_is_down_once_at_a_time_and_comes_back(seed: int) -> None:
    arrivals = {"kind": "uniform", "count": 50, "over": "4h"}
    trace = generate(one_app() | {"pools": [TROUBLED], "arrivals": arrivals, "seed": seed})
    down: dict[str, str] = {}
    events = list(trace.events())
    assert [event.at for event in events] == sorted(event.at for event in events)
    for event in disruptions(trace):
        if event.kind in ("fail", "drain"):
            assert event.node not in down
            down[event.node] = event.kind
        else:
            assert down.pop(event.node) == ("fail" if event.kind == "recover" else "drain")
    assert not down


def test_failures_are_as_frequent_as_described() -> None:
    pool = {key: value for key, value in TROUBLED.items() if key != "drains"}
    trace = generate(one_app() | {"pools": [pool], "until": "200h"})
    failures = [event for event in disruptions(trace) if event.kind == "fail"]
    assert 1600 < len(failures) < 2100


def test_drains_take_turns() -> None:
    pool = {key: value for key, value in TROUBLED.items() if key != "failures"}
    trace = generate(one_app() | {"pools": [pool], "until": "20m"})
    assert [(event.at, event.kind, event.node) for event in disruptions(trace)] == [
        (420.0, "drain", "node-0"),
        (720.0, "uncordon", "node-0"),
        (840.0, "drain", "node-1"),
        (1140.0, "uncordon", "node-1"),
    ]


def test_listed_disruptions_are_put_in_their_places() -> None:
    listed = [{"at": "15s", "fail": "node-1"}, {"at": 12, "cordon": "node-0"}]
    trace = generate(one_app() | {"disruptions": listed})
    assert [type(event).__name__ for event in trace.events()] == [
        *("Arrival", "Arrival", "Disruption", "Disruption", "Arrival", "Arrival")
    ]


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ([], "generate: expected a mapping"),
        ({"preset": "huge"}, "there is no huge; there are small, web, batch, mixed"),
        ({"pool": []}, "unknown field `pool`; did you mean `pools`?"),
        ({"seed": "x"}, "`seed`: `x` is not a whole number"),
        ({"pools": [{"count": 3}]}, "generate, pools[0]: `name` must be given"),
        ({"pools": [{"name": "a", "cpu": "much"}]}, "pools[0]: `cpu`: `much` is not an amount"),
        ({"pools": [{"name": "a"}, {"name": "a"}]}, "`pools[1]`: the name a is taken already"),
        ({"pools": [{"name": "a", "taints": ["x"]}]}, "`taints`: `x` is not a taint"),
        (
            {"pools": [{"name": "a", "failures": {"meanTimeBetween": "1h"}}]},
            "pools[0], failures: `meanTimeToRepair` must be given",
        ),
        ({"arrivals": {"kind": "rush"}}, "generate, arrivals: `kind`: there is no rush"),
        ({"arrivals": {"kind": "burst", "count": 2}}, "`every` must be given"),
        ({"arrivals": {"count": 3}}, "`applications`: pods arrive, so one of them needs a weight"),
        ({"arrivals": {"over": "1 day"}}, "`over`: `1 day` is not a time"),
        (
            {"applications": [{"name": "a", "priorityClass": "gold"}]},
            "a has priorityClass gold, which `priorityClasses` does not list",
        ),
        ({"applications": [{"name": "a", "weight": -1}]}, "`weight` must be a number"),
        ({"applications": [{"name": "a", "spread": {"hard": True}}]}, "`by` must be given"),
        ({"priorityClasses": [{"name": "a", "value": "x"}]}, "`value` must be a whole number"),
        ({"disruptions": [{"at": 3}]}, "expected one of fail, recover, drain, cordon, uncordon"),
        ({"arrivals": {"swing": 2}}, "`swing` must be between 0"),
        ({}, "describes nothing; write `pools`, `applications` or a `preset`"),
        (
            {"pools": [{"name": "n"}], "applications": [{"name": "a"}]},
            "no pod ever arrives; write `arrivals: {count: ...}`, or `initial` of an application",
        ),
    ],
)
def test_mistakes_name_the_field(description: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        generate(description, file=Path("made.yaml"))
    assert message in str(caught.value)
    assert str(caught.value).startswith("made.yaml: generate")


@examples(40)
@given(
    st.integers(0, 2**40),
    st.sampled_from(sorted(PRESETS)),
    st.integers(0, 60),
    st.integers(0, 200),
)
def test_any_seed_and_size_gives_an_ordered_trace(
    seed: int, preset: str, nodes: int, count: int
) -> None:
    description = {"preset": preset, "seed": seed, "nodeCount": nodes, "podCount": count}
    trace = generate(description)
    events = list(trace.events())
    assert [event.at for event in events] == sorted(event.at for event in events)
    assert sum(isinstance(event, Arrival) for event in events) == count == trace.pods
    known = {each["metadata"]["name"] for each in trace.objects() if each["kind"] == "Node"}
    assert len(known) == nodes
    assert {event.node for event in events if isinstance(event, Disruption)} <= known
    assert as_bytes(generate(description)) == as_bytes(trace)
