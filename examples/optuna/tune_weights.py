"""Tunes score weights on a trace with Optuna: python tune_weights.py [TRIALS]

A trial is a simulation in virtual time under other weights. What is minimised is the cost of the
nodes in use, plus a fine for zones that are unevenly filled. Needs `pip install stowplan optuna`.
"""

import argparse
import json
import tempfile
from pathlib import Path

import optuna

from stowplan import load_config
from stowplan.scenarios import Cluster, Options, play_trace, run_scenario
from stowplan.traces import load_trace

TRACE = Path(__file__).parents[1] / "strategy" / "services.yaml"
PRICES = {"m5.4xlarge": 0.768}
PLUGINS = ("NodeResourcesFit", "NodeResourcesBalancedAllocation", "PodTopologySpread")
#: What an imbalance of 100% costs; the nodes of a day cost about 12.
FINE = 10.0


def configuration(weights: dict[str, int]) -> str:
    """A KubeSchedulerConfiguration, as JSON."""
    enabled = [{"name": name, "weight": weight} for name, weight in weights.items()]
    packs = {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
    profile = {"plugins": {"score": {"enabled": enabled}}, "pluginConfig": [packs]}
    version = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return json.dumps({**version, "profiles": [profile]})


def simulate(weights: dict[str, int], seed: int = 1) -> tuple[float, float]:
    """The cost of the nodes in use, and the mean imbalance of zones."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(configuration(weights))
        file.flush()
        config = load_config(file.name)
    trace = load_trace(TRACE, seed=seed)

    async def scenario(cluster: Cluster) -> None:
        await play_trace(cluster, trace)

    options = Options(
        config=config,
        seed=seed,
        writes_events=False,
        keeps_entries=False,
        observes=True,  # the outcome has a run, with what `stowplan compare` shows
        prices=PRICES,
    )
    outcome = run_scenario(scenario, options=options)
    assert outcome.run is not None
    assert not outcome.problem, outcome.problem
    return outcome.run.cost_in_use, outcome.run.mean("imbalance")


def objective(trial: optuna.Trial) -> float:
    weights = {name: trial.suggest_int(name, 1, 20, log=True) for name in PLUGINS}
    cost, imbalance = simulate(weights)
    trial.set_user_attr("told", f"cost {cost:.2f}, imbalance {imbalance:.0%}")
    return cost + FINE * imbalance


def main() -> None:
    parser = argparse.ArgumentParser(description="Tune score weights on a trace with Optuna.")
    parser.add_argument("trials", type=int, nargs="?", default=40, help="[default: 40]")
    trials = parser.parse_args().trials
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
    study.enqueue_trial({PLUGINS[0]: 1, PLUGINS[1]: 1, PLUGINS[2]: 2})  # the defaults
    study.optimize(objective, n_trials=trials)
    for what, trial in (("defaults", study.trials[0]), ("best", study.best_trial)):
        weights = ", ".join(f"{name} {weight}" for name, weight in trial.params.items())
        print(f"{what}: {trial.value:.2f} ({trial.user_attrs['told']}) with {weights}")


if __name__ == "__main__":
    main()
