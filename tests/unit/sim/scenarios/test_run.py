"""How a scenario is played: outcomes, mistakes in words, the same every time."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from stowplan.errors import ConfigError
from stowplan.sim.scenarios import Cluster, Entry, Options, run_scenario

HERE = Path(__file__).name


async def _mini_kube_scheduler(cluster: Cluster) -> None:
    for number in range(9):
        await cluster.create_node(f"node{number}", unschedulable=True)
    cluster.say("all nodes created")
    await cluster.create_pod("pod1")
    cluster.say("pod1 created")
    await cluster.sleep(3)
    cluster.expect("pod1 is not bound yet", not await cluster.node_of("pod1"))
    await cluster.create_node("node10")
    await cluster.sleep(5)
    cluster.say(f"pod1 is bound to {await cluster.node_of('pod1')}")


def test_the_original_scenario() -> None:
    outcome = run_scenario(_mini_kube_scheduler)
    assert outcome.is_ok
    said = [entry.text for entry in outcome.entries if entry.kind == "said"]
    assert said == [
        "scenario: all nodes created",
        "scenario: pod1 created",
        "scenario: pod1 is bound to node10",
    ]
    assert outcome.placements == {"default/pod1": "node10"}
    assert outcome.cluster_s >= 8


def test_entries_are_told_as_they_come() -> None:
    live: list[Entry] = []
    outcome = run_scenario(_mini_kube_scheduler, options=Options(on_entry=live.append))
    assert live == outcome.entries
    assert [entry.at for entry in live] == sorted(entry.at for entry in live)


def test_entries_need_not_be_kept() -> None:
    live: list[Entry] = []
    options = Options(on_entry=live.append, keeps_entries=False)
    outcome = run_scenario(_mini_kube_scheduler, options=options)
    assert live
    assert not outcome.entries


def test_a_failed_assertion_is_told_with_its_line() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create_node("n1")
        assert await cluster.list("Pod"), "there should be pods"

    outcome = run_scenario(scenario)
    assert f"{HERE}:" in outcome.problem
    assert "not so: there should be pods" in outcome.problem


def test_an_assertion_without_words_is_quoted(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"  # where pytest does not put words into assertions
    file.write_text("async def scenario(cluster):\n    assert cluster.now() > 5\n")
    problem = run_scenario(runpy.run_path(str(file))["scenario"]).problem
    assert problem == f"{file}:2: not so: cluster.now() > 5"


def test_a_broken_scenario_is_no_broken_runner() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create_node("n1")
        cluster.nothing  # type: ignore[attr-defined]  # noqa: B018

    outcome = run_scenario(scenario)
    assert "AttributeError: 'Cluster' object has no attribute 'nothing'" in outcome.problem
    assert [node["metadata"]["name"] for node in outcome.nodes] == ["n1"]


def test_expectations_are_kept_and_the_scenario_goes_on() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.expect("one is two", is_met=False, found="one", where="step 1")
        cluster.expect("one is one", is_met=True)

    outcome = run_scenario(scenario)
    assert [each.is_met for each in outcome.expectations] == [False, True]
    assert not outcome.is_ok
    assert outcome.problem == ""


def test_a_cluster_that_never_rests_says_why() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create_node("n1")
        await cluster.create_pod("web", labels={"app": "web"})
        await cluster.settle()
        # Nobody takes it off: the pod leaves for ever.
        await cluster.patch("Pod", "web", {"metadata": {"finalizers": ["example.com/mine"]}})
        await cluster.delete("Pod", "web")
        await cluster.settle()

    outcome = run_scenario(scenario, options=Options(patience_s=30))
    assert "did not become quiet within 30 s: pod default/web has not left yet" in outcome.problem


def test_an_unknown_target_says_which_there_are() -> None:
    with pytest.raises(ConfigError, match="known: virtual, embedded, real, or the path of a kube"):
        run_scenario(_mini_kube_scheduler, on="moon")


def test_a_cluster_elsewhere_is_refused(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "clusters: [{name: c, cluster: {server: 'https://192.0.2.1:6443'}}]\n"
        "users: [{name: c, user: {}}]\ncontexts: [{name: c, context: {cluster: c, user: c}}]\n"
    )
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1:6443 is not on this machine"):
        run_scenario(_mini_kube_scheduler, on=str(kubeconfig))


_TWICE = """
import json
from stowplan.sim.scenarios import Options, run_scenario

async def scenario(cluster):
    for number in range(20):
        await cluster.create_node(f"n{number}", cpu=2, zone=f"z{number % 3}")
    for number in range(60):
        pause = cluster.rng.expovariate(1.0)
        await cluster.create_pod(
            f"p{number}", cpu=f"{cluster.rng.randrange(1, 8) * 100}m", run_s=30.0,
            labels={"app": f"a{number % 5}"},
        )
        await cluster.sleep(pause)
    await cluster.fail("n3")
    await cluster.settle()

outcome = run_scenario(scenario, options=Options(seed=7))
assert not outcome.problem, outcome.problem
lines = [[e.at, e.kind, e.subject, e.text, dict(e.details)] for e in outcome.entries]
print(json.dumps([lines, outcome.placements, [p["metadata"]["uid"] for p in outcome.pods]]))
"""


def test_the_same_input_gives_the_same_run_to_the_byte() -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", _TWICE],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    lines, placements, _ = json.loads(runs[0])
    assert len(lines) > 200
    assert placements
