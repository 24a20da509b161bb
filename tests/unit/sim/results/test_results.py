"""Runs are observed, kept in files and compared."""

from __future__ import annotations

import gzip
import json
import re
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from stowplan.api.objects import Node, Pod
from stowplan.cli.main import cli
from stowplan.errors import ConfigError
from stowplan.recording.hashing import Names
from stowplan.sim.results.comparing import compare, few_shared_pods, figures_of, shown
from stowplan.sim.results.conditions import parse_condition, unpriced_types
from stowplan.sim.results.files import load, named, read_prices, save
from stowplan.sim.results.observing import RunObserver
from stowplan.sim.results.page import page_of
from stowplan.sim.results.pod_table import COLUMNS, write_pods
from stowplan.sim.results.run import FORMAT, SAMPLED, Gap, PodLife, Run
from stowplan.sim.results.text import data_of, text_of


class Stage:
    """Nodes and pods at given times."""

    def __init__(self, prices: dict[str, float] | None = None) -> None:
        self.at = 0.0
        self.observer = RunObserver("test", lambda: self.at, prices)

    def node(self, name: str, *, cpu: str = "4", zone: str = "a", type_: str = "m") -> None:
        labels = {
            "topology.kubernetes.io/zone": zone,
            "node.kubernetes.io/instance-type": type_,
        }
        offers = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
        obj = {
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": offers},
        }
        self.observer.node_seen(msgspec.convert(obj, Node))

    def pod(self, name: str, node: str = "", *, cpu: str = "1", bound: bool = False) -> None:
        container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
        obj = {
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"containers": [container], "nodeName": node},
        }
        pod = msgspec.convert(obj, Pod)
        if bound:
            self.observer.pod_bound(pod)
        else:
            self.observer.pod_created(pod)


def test_a_run_has_the_life_of_every_pod() -> None:
    stage = Stage()
    stage.node("n1")
    stage.pod("old", "n1")
    stage.at = 10.0
    stage.pod("new")
    stage.pod("waits")
    stage.pod("given-up")
    stage.at = 12.5
    stage.pod("new", "n1", bound=True)
    stage.at = 20.0
    stage.observer.pod_preempted("default/new")
    stage.observer.pod_gone("default/new")
    stage.observer.pod_gone("default/given-up")
    stage.at = 30.0
    run = stage.observer.finish()
    assert run.seconds == 30.0
    assert run.pods == {
        "default/old": PodLife(0.0, 0.0, "n1", was_placed=True),
        "default/new": PodLife(10.0, 12.5, "n1", 20.0, preempted=True),
        "default/waits": PodLife(10.0),
        "default/given-up": PodLife(10.0, ended=20.0),
    }
    # One waited 2.5 s, one was deleted after 10 s, one waits since 20 s; the old one was there.
    assert run.waits() == [2.5, 10.0, 20.0]
    assert figures_of(run)["pending_p50"] == 10.0
    assert figures_of(run)["evictions"] == 1
    assert json.dumps(figures_of(run)).startswith('{"pods": 4, "placed": 2, "unplaced": 2,')


def test_moments_are_evenly_spaced_and_bounded() -> None:
    stage = Stage()
    stage.node("n1")
    for second in range(5000):
        stage.at = float(second)
        stage.pod(f"p{second}")
        stage.observer.pod_gone(f"default/p{second}")
    run = stage.observer.finish()
    times = run.samples["at"]
    assert 200 <= len(times) <= 401
    steps = {round(after - before, 3) for before, after in pairwise(times[:-1])}
    assert steps == {16.0}


def test_utilisation_fragmentation_and_imbalance() -> None:
    stage = Stage()
    stage.node("n1", cpu="4", zone="a")
    stage.node("n2", cpu="4", zone="b")
    for number, node in enumerate(("n1", "n1", "n1", "n2")):
        stage.pod(f"p{number}", node, cpu="1500m" if number == 0 else "1")
    run = stage.observer.finish()
    last = {name: values[-1] for name, values in run.samples.items()}
    assert last["cpu"] == pytest.approx(4.5 / 8)
    # n1 has half a CPU left, where no pod of one CPU fits; n2 has three.
    assert last["fragmentation"] == pytest.approx(0.5 / 3.5)
    assert last["imbalance"] == pytest.approx(2 / 4)
    assert last["nodes_in_use"] == 2


def test_nodes_without_a_zone_are_no_zone() -> None:
    stage = Stage()
    stage.node("control-plane", zone="")
    stage.pod("etcd", "control-plane")
    stage.at = 1.5
    assert stage.observer.finish().samples["imbalance"][-1] == 0
    for number, zone in enumerate("abab"):
        stage.node(f"n{number}", zone=zone)
        stage.pod(f"p{number}", f"n{number}")
    assert stage.observer.finish().samples["imbalance"][-1] == 0


def test_cost_is_paid_for_the_time_that_nodes_exist() -> None:
    stage = Stage({"m": 3.6})
    stage.node("n1")
    stage.at = 1000.0
    stage.node("n2", type_="free")
    stage.pod("p", "n1")
    stage.at = 2000.0
    stage.observer.node_gone("n1")
    stage.at = 3000.0
    run = stage.observer.finish()
    assert run.cost == pytest.approx(2.0)
    assert run.cost_in_use == pytest.approx(1.0)


def test_nodes_without_a_price_are_counted_by_type() -> None:
    stage = Stage({"free": 0.0})
    for name in ("n1", "n2"):
        stage.node(name, type_="m5.4xlarge")
    stage.node("n3", type_="")
    stage.node("n4", type_="free")
    stage.node("n5", type_="later")
    stage.node("n5", type_="free")
    run = stage.observer.finish()
    assert run.unpriced == {"": 1, "m5.4xlarge": 2}
    assert unpriced_types(run) == (
        "1 node without the label node.kubernetes.io/instance-type, m5.4xlarge (2 nodes)"
    )
    many = replace(run, unpriced={f"t{number}": 1 for number in range(7)})
    assert unpriced_types(many).endswith("t4 (1 node), 2 more types")
    without = Stage()
    without.node("n1")
    assert without.observer.finish().unpriced == {}


def runs() -> tuple[Run, Run]:
    first = {
        "a": PodLife(0.0, 1.0, "n1"),
        "b": PodLife(0.0, 1.0, "n2"),
        "c": PodLife(0.0),
        "d": PodLife(0.0, 5.0, "n1"),
    }
    second = {
        "a": PodLife(0.0, 2.0, "n1"),
        "b": PodLife(0.0, 2.0, "n9"),
        "c": PodLife(0.0, 40.0, "n2"),
        "d": PodLife(0.0),
    }
    samples = {"at": [0.0, 50.0], "cpu": [0.5, 0.7]}
    return (
        Run(run=FORMAT, name="A", seconds=100.0, pods=first, samples=samples),
        Run(run=FORMAT, name="B", seconds=100.0, pods=second, cost=3.0),
    )


def test_a_comparison_says_what_moved_and_what_fits() -> None:
    comparison = compare(runs())
    moves = comparison.moves[1]
    assert moves.moved == (("b", "n2", "n9"),)
    assert (moves.fit_now, moves.fit_no_longer) == (("c",), ("d",))
    assert comparison.figures[1]["pending_p90"] == 100.0
    text = text_of(comparison)
    assert "B: 1 pod got a node that had none: c" in text
    assert "60.0%" in text
    data = data_of(comparison)
    assert data["runs"][1]["moved"] == [{"pod": "b", "from": "n2", "to": "n9"}]
    html = page_of(comparison)
    assert "<td>b</td><td>n2</td><td>n9</td>" in html
    assert "<figcaption>CPU requested, share of what all nodes offer</figcaption>" in html


def test_every_plot_has_a_caption_of_its_own() -> None:
    samples = {name: [1.0, 1.0] for name in SAMPLED}
    run = Run(run=FORMAT, name="A", seconds=1.0, samples=samples)
    captions = re.findall("<figcaption>(.*?)</figcaption>", page_of(compare([run])))
    assert len(captions) == len(set(captions)) == 6
    assert "memory requested, share of what all nodes offer" in captions


def test_runs_that_share_few_pods() -> None:
    def run(name: str, *pods: str) -> Run:
        return Run(run=FORMAT, name=name, pods={pod: PodLife(0.0) for pod in pods})

    first = run("A", "a", "b", "c", "d")
    assert few_shared_pods(first, run("B", "a", "b", "x", "y", "z")) == ""
    assert few_shared_pods(first, run("B", "a")) == ""
    assert few_shared_pods(run("A"), run("B")) == ""
    assert few_shared_pods(first, run("B", "a", "x", "y")).startswith(
        "A and B share 1 of 3 pods. Pods are matched by name"
    )
    assert few_shared_pods(first, run("B", "x")).startswith("A and B share no pods")
    assert few_shared_pods(first, run("B")).startswith("A and B share no pods")


def test_runs_that_share_few_pods_because_of_hashed_names() -> None:
    def run(name: str, pod: str) -> Run:
        return Run(run=FORMAT, name=name, pods={pod: PodLife(0.0)})

    one, other = (Names(key).path("shop/web") for key in (b"1", b"2"))
    shared = "A and B share no pods. Pods are matched by name; "
    workloads = f"{shared}the runs may be of different workloads"
    either = f"{workloads}, or names are hashed with different keys"
    for first, second, why in (
        ("shop/web", "shop/db", workloads),
        ("shop/web", one, f"{shared}names are hashed in only one of the runs"),
        (one, other, either),
        (one, Names(b"2").path("default/web") + "-r1", either),
    ):
        assert few_shared_pods(run("A", first), run("B", second)) == why
        assert few_shared_pods(run("A", second), run("B", first)) == why


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("pending_p99>30s", True),
        ("pending_p99>2m", False),
        ("pending_p50 > 1.5x", True),
        ("pending_p50>3x", False),
        ("cpu<60%", True),
        ("cpu<0.6", True),
        ("cpu<0.6x", True),
        ("pending_p99>30", True),
        ("pending_p99>1m40s", False),
        ("moved>=1", True),
        ("moved>1", False),
        ("unplaced<1", False),
    ],
)
def test_conditions(text: str, fails: bool) -> None:
    failures = parse_condition(text).failures(compare(runs()))
    assert bool(failures) == fails
    if fails:
        assert failures[0].startswith("B: ")


def test_a_condition_that_holds_is_told_with_the_figure_and_the_limit() -> None:
    comparison = compare(runs())
    (one,) = parse_condition("pending_p99>30s").failures(comparison)
    assert one == "B: pending_p99 is 100.0 s (>30s)"
    (other,) = parse_condition("pending_p50 > 1.5x").failures(comparison)
    assert other == "B: pending_p50 is 2.0 s (>1.5x: 1.5 s)"


def test_a_condition_that_holds_by_little_shows_enough_digits() -> None:
    """Not `cpu is 25.1% (>25.1%)`."""
    a, b = (
        Run(run=FORMAT, name=name, samples={"cpu": [cpu]}, cost=cost)
        for name, cpu, cost in (("A", 0.0, 0.0), ("B", 0.25104, 0.004))
    )
    told = [parse_condition(text).failures(compare([a, b])) for text in ("cpu>25.1%", "cpu>1x")]
    assert told == [["B: cpu is 25.104% (>25.1%)"], ["B: cpu is 25.1% (>1x: 0.0%)"]]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("pending_p99", "is not FIGURE>VALUE"),
        ("pendingp99>3s", "did you mean"),
        ("cpu>much", "cpu is a share: write cpu>60% or cpu>0.6"),
        ("cpu>60", "cpu is a share: write cpu>60% or cpu>0.6"),
        ("cpu<=1", "cpu is a share: write cpu<=1% or cpu<=0.01"),
        ("cpu>60s", "cpu is a share: write cpu>60% or cpu>0.6"),
        ("cpu>nan", "cpu is a share"),
        ("pending_p99>1%", "pending_p99 is a time: write pending_p99>30s or pending_p99>1.1x"),
        ("pending_p99>inf", "pending_p99 is a time"),
        ("pending_p99<-3s", "pending_p99 is a time"),
        ("pods>3%", "pods is a count: write pods>3 or pods>1.1x"),
        ("pods>nanx", "pods is a count"),
        ("nodes_in_use>3s", "nodes_in_use is a number of nodes: write nodes_in_use>3 or"),
        ("cost>10s", "cost is an amount of money: write cost>10 or cost>1.1x"),
        ("pending_p99>3 apples", "is not FIGURE>VALUE"),
    ],
)
def test_conditions_that_are_none(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_condition(text)


def test_files(tmp_path: Path) -> None:
    run, _ = runs()
    for name in ("a.json", "a.json.gz"):
        save(run, tmp_path / name)
        assert load(tmp_path / name) == run
    first, second = tmp_path / "1.gz", tmp_path / "2.gz"
    for path in (first, second):
        save(run, path)
    assert first.read_bytes() == second.read_bytes()
    assert [each.name for each in named([run, run, run], ())] == ["A", "A (2)", "A (3)"]
    assert [each.name for each in named([run, run], ("x", "y"))] == ["x", "y"]
    write_pods([run], tmp_path / "pods.csv")
    lines = (tmp_path / "pods.csv").read_text().splitlines()
    assert lines[0] == ",".join(COLUMNS)
    assert lines[1] == "A,a,0.0,1.0,n1,,False,False,1.0"
    assert lines[3] == "A,c,0.0,,,,False,False,"
    hostile = replace(run, pods={"a/\x1b[2J": PodLife(0.0)})
    write_pods([hostile], tmp_path / "pods.csv")
    assert (tmp_path / "pods.csv").read_text().splitlines()[1].startswith("A,a/\\x1b[2J,0.0,")
    with pytest.raises(ConfigError, match=r"pods\.xlsx: is neither CSV nor Parquet"):
        write_pods([run], tmp_path / "pods.xlsx")


def test_a_node_that_comes_back_has_its_pods() -> None:
    """They were there when it left; otherwise their end would leave less than nothing in use."""
    stage = Stage()
    stage.node("n1")
    stage.pod("web", "n1")
    stage.pod("early", "n2")
    stage.at = 10.0
    stage.observer.node_gone("n1")
    stage.at = 20.0
    stage.node("n1")
    stage.node("n2")
    stage.at = 30.0
    stage.observer.pod_gone("default/web")
    stage.observer.pod_gone("default/early")
    stage.at = 40.0
    run = stage.observer.finish()
    in_use = dict(zip(run.samples["at"], run.samples["nodes_in_use"], strict=True))
    cpu = dict(zip(run.samples["at"], run.samples["cpu"], strict=True))
    assert [in_use[at] for at in (5.0, 15.0, 25.0, 35.0)] == [1, 0, 2, 0]
    assert [cpu[at] for at in (5.0, 15.0, 25.0, 35.0)] == [0.25, 0, 0.25, 0]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is neither a recording nor a result: it is empty. Fix"),
        (b"{}", "is neither a recording nor a result"),
        (b'{"run": "stowplan/run/v9", "name": "x"}', "is of the format 'stowplan/run/v9'"),
        (b'{"run": "stowplan/run/v1", "name": "x", "samples": {"evil": []}}', "not known"),
        (gzip.compress(b"[" * 100_000, mtime=0), "is neither a recording nor a result"),
        (gzip.compress(b"{}", mtime=0)[:12], "cannot be read"),
        (gzip.compress(b"{}", mtime=0)[:10] + b"\xff" * 20, r"cannot be read: Error -3 .* Fix: "),
        (
            b'{"run": "stowplan/run/v1", "name": "x", "samples": {"at": [0, 1], "cpu": [0.5]}}',
            "its samples are lists of different lengths. Fix: write the result again",
        ),
        (
            gzip.compress(b"[" + b"0," * 20_000_000 + b"0]", 1, mtime=0),
            "has more than 20,000,000 values. Fix: give a shorter run",
        ),
    ],
)
def test_files_that_are_no_runs(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=problem):
        load(path)


def test_prices(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("m5.large: 0.096\nfree: 0\n")
    assert read_prices(path) == {"m5.large": 0.096, "free": 0.0}
    for text, problem in (
        ("{}", "has no prices"),
        ("a: true", "True is not a price"),
        ("- 1", "not a table of prices"),
        ("a: cheap", "not a price"),
        ("a: [", "prices.yaml:2: cannot be read: "),
        ("a: 1\na: 2", "prices.yaml:2: cannot be read: `a` is given twice"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=problem):
            read_prices(path)


def test_figures_for_people() -> None:
    assert shown("pending_p99", 1234.5) == "1,234 s"
    assert shown("cpu", 0.5) == "50.0%"
    assert shown("cost", 1234.5) == "1,234.50"


def test_pods_in_parquet_are_those_in_csv(tmp_path: Path) -> None:
    first, second = runs()
    path = tmp_path / "pods.parquet"
    write_pods([first, second], path)
    table = pytest.importorskip("pyarrow.parquet").read_table(path)
    assert table.column_names == list(COLUMNS)
    assert table.num_rows == 8
    assert table.column("bound").to_pylist()[:3] == [1.0, 1.0, None]
    assert table.column("was_placed").to_pylist()[0] is False


def recorded(path: Path) -> None:
    """A pod arrives after 10.2 s and is bound 0.5 s later; recording is stopped after 60 s."""
    offers = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    labels = {"node.kubernetes.io/instance-type": "m5.4xlarge"}
    metadata = {"name": "n1", "uid": "n1", "labels": labels}
    node = {"metadata": metadata, "status": {"allocatable": offers}}
    requests = {"requests": {"cpu": "1", "memory": "1Gi"}}
    spec = {"containers": [{"name": "c", "image": "example/image", "resources": requests}]}
    pod = {"metadata": {"name": "p", "namespace": "default", "uid": "p"}, "spec": spec}
    bound = {**spec, "nodeName": "n1"}
    lines = [
        {"recording": "stowplan/v1", "startedAt": "2026-01-02T03:04:05Z", "kinds": ["Node", "Pod"]},
        {"at": 0.0, "type": "ADDED", "kind": "Node", "object": node},
        {"at": 0.0, "type": "SYNCED"},
        {"at": 10.2, "type": "ADDED", "kind": "Pod", "object": pod},
        {"at": 10.7, "type": "MODIFIED", "kind": "Pod", "object": {**pod, "spec": bound}},
        {"at": 60.0, "type": "END"},
    ]
    path.write_bytes(gzip.compress(b"".join(msgspec.json.encode(line) + b"\n" for line in lines)))


def test_a_replay_is_averaged_over_the_same_time_as_its_recording(tmp_path: Path) -> None:
    path, again = tmp_path / "tuesday.jsonl.gz", tmp_path / "again.json"
    recorded(path)
    invoked = CliRunner().invoke(cli, ["replay", str(path), "--result", str(again)])
    assert invoked.exit_code == 0, invoked.output
    before, after = load(path), load(again)
    assert before.seconds == after.seconds == 60.0
    assert after.samples["at"] == before.samples["at"]
    assert after.mean("cpu") == before.mean("cpu") > 0.2
    # The first moment has all that the recording begins with.
    assert before.samples["nodes"][0] == after.samples["nodes"][0] == 1
    shown = CliRunner().invoke(cli, ["compare", str(path), str(again)])
    assert shown.output.splitlines()[0].split() == ["tuesday.jsonl.gz", "again.json"]


def test_instance_types_without_a_price_are_named(tmp_path: Path) -> None:
    path, again, prices = (
        str(tmp_path / name) for name in ("tuesday.jsonl.gz", "again.json", "prices.yaml")
    )
    recorded(Path(path))
    Path(prices).write_text("m5.4xlage: 0.768\n")
    replayed = CliRunner().invoke(cli, ["replay", path, "--result", again, "--prices", prices])
    assert f"Warning: {prices} has no price for m5.4xlarge (1 node)\n" in replayed.stderr
    shown = CliRunner().invoke(cli, ["compare", path, again, "--prices", prices])
    for name in ("tuesday.jsonl.gz", "again.json"):
        expected = f"Warning: {name}: no price for m5.4xlarge (1 node); these nodes cost nothing\n"
        assert expected in shown.stderr
    assert "no node has a price" not in shown.stderr
    arguments = ["compare", path, "--prices", prices, "--fail-on", "cost>1"]
    failed = CliRunner().invoke(cli, arguments)
    assert "no price for m5.4xlarge (1 node). Fix: " in str(failed.exception)

    Path(prices).write_text("m5.4xlarge: 0.768\n")
    assert not CliRunner().invoke(cli, ["compare", path, "--prices", prices]).stderr


def test_prices_do_not_reach_results(tmp_path: Path) -> None:
    first, other, recording, prices = (
        str(tmp_path / name) for name in ("a.json", "b.json", "r.jsonl.gz", "prices.yaml")
    )
    save(runs()[0], Path(first))
    save(replace(runs()[1], cost=64.07), Path(other))
    recorded(Path(recording))
    Path(prices).write_text("m5.4xlarge: 0.768\n")

    refused = CliRunner().invoke(cli, ["compare", first, other, "--prices", prices])
    assert str(refused.exception).startswith("--prices: is for recordings, and there is none: ")
    shown = CliRunner().invoke(cli, ["compare", recording, other, "--prices", prices])
    assert f"Warning: --prices is not used for {other}, a result: it has the" in shown.stderr
    without = CliRunner().invoke(cli, ["compare", first, other])
    assert (
        "Warning: a.json: no node has a price. Fix: give --prices (for a result," in without.stderr
    )
    assert "b.json: no node" not in without.stderr


def test_compare_warns_of_runs_of_different_workloads(tmp_path: Path) -> None:
    first, _ = runs()
    save(first, tmp_path / "a.json")
    save(replace(first, pods={"x": PodLife(0.0)}), tmp_path / "b.json")
    shown = CliRunner().invoke(
        cli, ["compare", *(str(tmp_path / name) for name in ("a.json", "b.json"))]
    )
    assert shown.stderr.startswith("Warning: a.json and b.json share no pods. ")


def test_pods_in_an_unknown_format_are_refused_before_a_run_is_read(tmp_path: Path) -> None:
    arguments = ["compare", "none.json", "--pods", str(tmp_path / "a.xlsx")]
    refused = CliRunner().invoke(cli, arguments)
    assert str(refused.exception).endswith(
        "a.xlsx: is neither CSV nor Parquet. Fix: give a name that ends with .csv or .parquet"
    )


def test_gaps_of_several_runs_are_shown_once() -> None:
    first, second = runs()
    both, own = Gap(25026.2, "both"), Gap(3.0, "own")
    comparison = compare([replace(first, gaps=[both, both]), replace(second, gaps=[both, own])])
    assert text_of(comparison).partition("\nA / B: ")[2].split("\n\n")[:3] == [
        "1 gap in the recording\n  25,026.2 s: both",
        "A: 1 gap in the recording\n  25,026.2 s: both",
        "B: 1 gap in the recording\n  3.0 s: own",
    ]
    html = page_of(comparison)
    assert re.findall("<h2>(.*? gaps? .*?)</h2>", html) == [
        "1 gap in A / B",
        "1 gap in A",
        "1 gap in B",
    ]
