"""The file of a sweep: which tasks it makes, and which mistakes it tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stowplan.errors import ConfigError
from stowplan.sim.sweep.document import read_sweep
from stowplan.sim.sweep.places import parts_of, with_value
from tests.unit.sim.results.test_results import recorded

SCENARIO = """
cluster: {nodes: [{name: n1, cpu: 4}]}
steps:
- create: {pods: [{name: web, count: 2, cpu: 1}]}
"""
WEIGHT = "profiles[0].plugins.score.enabled[ImageLocality].weight"
STRATEGY = "profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy.type"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    return tmp_path


def read(folder: Path, text: str) -> Any:
    (folder / "sweep.yaml").write_text(text)
    return read_sweep(folder / "sweep.yaml")


WORKLOAD = "workloads: [{scenario: scenario.yaml}]\n"


def test_values_at_places() -> None:
    tree: dict[str, Any] = {"profiles": [{"schedulerName": "a"}]}
    first = with_value(tree, WEIGHT, 5)
    assert first == {
        "profiles": [
            {
                "schedulerName": "a",
                "plugins": {"score": {"enabled": [{"name": "ImageLocality", "weight": 5}]}},
            }
        ]
    }
    assert tree == {"profiles": [{"schedulerName": "a"}]}
    again = with_value(first, WEIGHT, 7)
    assert again["profiles"][0]["plugins"]["score"]["enabled"] == [
        {"name": "ImageLocality", "weight": 7}
    ]
    second = with_value(tree, "profiles[b].percentageOfNodesToScore", 10)
    assert second["profiles"][1] == {"schedulerName": "b", "percentageOfNodesToScore": 10}
    assert with_value({}, "parallelism", 4) == {"parallelism": 4}


@pytest.mark.parametrize("place", ["", ".a", "a.", "a..b", "[0].a", "a[", "a[]", "a b", "a[0]b"])
def test_places_that_are_none(place: str) -> None:
    with pytest.raises(ValueError, match="is no path such as"):
        parts_of(place)


def test_every_combination_is_a_task(folder: Path) -> None:
    sweep = read(
        folder,
        f"""
{WORKLOAD}
configurations:
- {{name: a, config: {{}}}}
- {{name: b, config: {{percentageOfNodesToScore: 50}}}}
parameters:
  image: {{path: "{WEIGHT}", values: [1, 2, 2]}}
  strategy: {{path: "{STRATEGY}", values: [LeastAllocated, MostAllocated]}}
seeds: [4, 7]
""",
    )
    assert len(sweep.tasks) == 2 * 2 * 2 * 2, "a value that is given twice counts once"
    assert len({task.key for task in sweep.tasks}) == 16
    assert sweep.name == "sweep"
    first = sweep.tasks[0]
    assert first.label == "scenario, a, image=1, strategy=LeastAllocated, seed 4"
    last = sweep.tasks[-1]
    assert last.parameters == {"image": 2, "strategy": "MostAllocated"}
    assert last.config["percentageOfNodesToScore"] == 50


def test_without_configurations_the_scenario_has_its_own(folder: Path) -> None:
    (task,) = read(folder, WORKLOAD).tasks
    assert task.config is None


def test_equal_samples_of_random_search_are_reported(folder: Path) -> None:
    text = f"{WORKLOAD}parameters: {{w: {{path: '{WEIGHT}', values: [1, 2]}}}}\n"
    sweep = read(folder, f"{text}search: {{random: 9}}")
    assert len(sweep.tasks) == 2
    assert sweep.warnings == (
        f"{folder / 'sweep.yaml'}:3: sweep: `search` has 9 samples, but 2 distinct ones; each runs"
        " once",
    )
    assert read(folder, text).warnings == ()


def test_random_search_draws_the_same_again(folder: Path) -> None:
    text = f"""
{WORKLOAD}
parameters:
  image: {{path: "{WEIGHT}", between: [1, 100]}}
  share: {{path: percentageOfNodesToScore, between: [1, 100], log: true}}
search: {{random: 8, seed: 3}}
"""
    drawn = [task.parameters for task in read(folder, text).tasks]
    assert drawn == [task.parameters for task in read(folder, text).tasks]
    assert len(drawn) == 8
    assert all(isinstance(each["image"], int) and 1 <= each["image"] <= 100 for each in drawn)
    assert len({each["image"] for each in drawn}) > 4
    others = [task.parameters for task in read(folder, text.replace("seed: 3", "seed: 4")).tasks]
    assert others != drawn
    # Another parameter does not change what is drawn for this one.
    alone = text.replace("  share: ", "  portion: ")
    assert [task.parameters["image"] for task in read(folder, alone).tasks] == [
        each["image"] for each in drawn
    ]


def test_keys_are_hashes_of_contents(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = "workloads: [{scenario: outer.yaml}]\n"
    trace = (
        "generate: {pools: [{name: node, count: 1, cpu: 4}], arrivals: {count: 1, over: 1m},"
        " applications: [{name: a, cpu: 1}]}"
    )

    def key(where: Path, trace: str) -> str:
        (where / "outer.yaml").write_text("steps: [{workload: {trace: trace.yaml}}]")
        (where / "trace.yaml").write_text(trace)
        key: str = read(where, text).tasks[0].key
        return key

    first = key(folder, trace)
    assert key(tmp_path_factory.mktemp("elsewhere"), trace) == first
    assert key(folder, trace.replace("cpu: 4", "cpu: 8")) != first, "a file that a scenario names"


PARAMETER = 'parameters: {image: {path: "%s", values: [1]}}\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "expected a mapping with `workloads`"),
        ("workloads: []", "sweep.yaml:1: sweep: `workloads` must be given"),
        ("workload: []", "did you mean `workloads`"),
        ("workloads: [{file: x}]", "unknown field `file`"),
        ("workloads: [{name: x}]", "needs one of scenario, trace, recording"),
        ("workloads: [{trace: none.yaml}]", r"sweep.yaml:1: workload: .*none.yaml: no such file"),
        ("workloads: [{scenario: scenario.yaml, limit: 3}]", "`limit` does not go with `scenario`"),
        ("workloads: [{scenario: scenario.yaml}, {scenario: scenario.yaml}]", "called scenario"),
        (WORKLOAD + "seeds: 0", "`seeds` must be a list of whole numbers, or how many"),
        (WORKLOAD + "seeds: [a]", "`seeds` must be"),
        (WORKLOAD + "seeds: 999999999999", "asks for 999,999,999,999 seeds, and 100,000"),
        (WORKLOAD + "parameters: {a: {path: parallelism, between: [no, yes]}}", "two numbers"),
        (WORKLOAD + "parameters: {a: {path: parallelism, between: [false, true]}}", "two numbers"),
        (WORKLOAD + "seeds: true", "`seeds` must be"),
        (WORKLOAD + PARAMETER % "a b", "is no path such as"),
        (WORKLOAD + PARAMETER % "profiles[3].plugins", r"profiles has 1 entry, and no \[3\]"),
        (WORKLOAD + PARAMETER % "profiles[0].nonsense", r"configuration, image=1: profiles\[0\]"),
        (WORKLOAD + PARAMETER % "kind.of", "is not a mapping"),
        (WORKLOAD + "parameters: {cpu: {path: parallelism, values: [1]}}", "another column"),
        (WORKLOAD + "parameters: {a: {path: parallelism}}", "needs `values"),
        (WORKLOAD + "parameters: {a: {path: parallelism, between: [1, 2]}}", "add `search: {ran"),
        (WORKLOAD + "search: {random: 3}", "random search needs `parameters`"),
        (WORKLOAD + "search: {random: 0}", "`random` must be 1 to"),
        (WORKLOAD + "configurations: [{config: none.yaml}]", r"sweep.yaml:2: config.*none.yaml: "),
        ("workloads: [{trace: sweep.yaml}]", r"sweep.yaml:1: workload: .*: is not a trace"),
        (WORKLOAD + "configurations: [{config: {}}]", "`name` must be given"),
        (WORKLOAD + "plugins: [none.py:Plugin]", r"sweep.yaml:2: .*none.py: no such file"),
        (WORKLOAD + "prices: none.yaml", r"sweep.yaml:2: sweep: .*none.yaml: cannot be read"),
    ],
)  # fmt: skip
def test_mistakes(folder: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        read(folder, text)
    assert "\n" not in str(caught.value)


def test_a_grid_that_is_too_large(folder: Path) -> None:
    many = ", ".join(map(str, range(1, 400)))
    text = f"a: {{path: parallelism, values: [{many}]}}, b: {{path: p, values: [{many}]}}"
    with pytest.raises(ConfigError, match=r"the grid has 159,201 configurations"):
        read(folder, f"{WORKLOAD}parameters: {{{text}}}")


PLUGIN = """
from stowplan import Plugin

class OnZoneA(Plugin):
    name = "OnZoneA"

    def score(self, state, pod, node):
        return 0
"""


def test_plugins_that_no_configuration_enables_are_reported(folder: Path) -> None:
    (folder / "p.py").write_text(PLUGIN)
    text = f"{WORKLOAD}plugins: [p.py:OnZoneA]\n"
    plain = "{name: a, config: {}}"
    enabled = "{name: b, config: {profiles: [{plugins: {score: {enabled: [{name: OnZoneA}]}}}]}}"
    warning = (
        f"{folder / 'sweep.yaml'}: p.py:OnZoneA is enabled in no profile of any configuration."
        " Fix: enable it in profiles[].plugins"
    )
    assert read(folder, f"{text}configurations: [{plain}]").warnings == (warning,)
    assert read(folder, f"{text}configurations: [{plain}, {enabled}]").warnings == ()
    assert read(folder, text).warnings == (), "it joins the default profile"
    path = "profiles[0].plugins.score.enabled[%s].weight"
    for name, expected in (("ImageLocality", (warning,)), ("OnZoneA", ())):
        parameters = f"parameters: {{w: {{path: '{path % name}', values: [1, 2]}}}}"
        assert read(folder, text + parameters).warnings == expected


GENERATED = """
generate:
  pools: [{name: node, count: 1, cpu: 4}]
  applications: [{name: a, cpu: 1}]
  arrivals: {count: 1, over: 1m}
"""


def test_seeds_of_workloads_that_are_the_same_for_each_are_reported(folder: Path) -> None:
    recorded(folder / "monday.jsonl.gz")
    (folder / "generated.yaml").write_text(GENERATED)
    both = "workloads: [{recording: monday.jsonl.gz}, {name: again, trace: monday.jsonl.gz}]\n"
    random = "configurations: [{name: a, config: {profiles: [{tieBreak: random%s}]}}]\n"
    (warning,) = read(folder, f"{both}seeds: 3").warnings
    assert warning.startswith(
        f"{folder / 'sweep.yaml'}: monday, again are the same for every seed, and no configuration"
        " has `tieBreak: random`"
    )
    assert read(folder, both).warnings == ()
    assert read(folder, f"{both}seeds: [4]").warnings == ()
    assert read(folder, f"{both}seeds: 3\n{random % ''}").warnings == ()
    assert read(folder, f"{both}seeds: 3\n{random % ', tieBreakSeed: 1'}").warnings == (warning,)
    seeded = f"workloads: [{{trace: generated.yaml}}, {WORKLOAD[12:-2]}]\nseeds: 3"
    assert read(folder, seeded).warnings == ()


def test_equal_seeds_and_values_are_reported(folder: Path) -> None:
    values = f"parameters: {{weight: {{path: '{WEIGHT}', values: [1, 1, 2]}}}}\n"
    sweep = read(folder, f"{WORKLOAD}{values}seeds: [1, 1, 2]\n")
    assert len(sweep.tasks) == 4
    file = folder / "sweep.yaml"
    assert sweep.warnings == (
        f"{file}:2: sweep: parameter weight has 3 values, but 2 distinct ones; each runs once",
        f"{file}:3: sweep: `seeds` has 3 values, but 2 distinct ones; each runs once",
    )
    # Repeated values are drawn more often.
    assert not read(folder, f"{WORKLOAD}{values}search: {{random: 1}}\n").warnings


def test_a_negative_weight_is_called_so(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"weight: Invalid value: -2: must not be negative; "):
        read(folder, f"{WORKLOAD}parameters: {{weight: {{path: '{WEIGHT}', values: [-2]}}}}\n")


def test_a_folder_of_recordings_with_other_names(folder: Path) -> None:
    (folder / "days").mkdir()
    text = "workloads: [{recording: days}]"
    with pytest.raises(ConfigError) as empty:
        read(folder, text)
    assert "as workloads" not in str(empty.value)
    recorded(folder / "days" / "monday.jsonl.gz")
    with pytest.raises(ConfigError, match=r"monday\.jsonl\.gz\. Or list its files as workloads$"):
        read(folder, text)
