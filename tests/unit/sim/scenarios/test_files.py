"""What a file holds: Python scenarios, scheduler_perf's workloads, and their mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from stowplan.errors import ConfigError
from stowplan.sim.scenarios import Options
from stowplan.sim.scenarios.files import Wishes, read_playables

SHOP = Path(__file__).parents[4] / "examples" / "workloads" / "shop.yaml"

STORY = '''\
"""A story."""

seed = 3
{more}

async def scenario(cluster):
    await cluster.create_node("n1")
    await cluster.settle()
    await cluster.create_pod("a")
    await cluster.settle()
    {last}
'''


def written(folder: Path, last: str = "pass", more: str = "") -> Path:
    file = folder / "story.py"
    file.write_text(STORY.format(last=last, more=more))
    return file


def test_a_python_scenario(tmp_path: Path) -> None:
    file = written(tmp_path, 'cluster.expect("it is there", await cluster.node_of("a") == "n1")')
    (playable,) = read_playables(file)
    assert (playable.name, playable.about, playable.seed) == ("story", "A story.", 3)
    outcome = playable.play("virtual", Options())
    assert outcome.is_ok
    assert outcome.placements == {"default/a": "n1"}


def test_an_assertion_is_told_with_its_line(tmp_path: Path) -> None:
    file = written(tmp_path, 'assert await cluster.node_of("a") == "n2", "a went elsewhere"')
    (playable,) = read_playables(file)
    outcome = playable.play("virtual", Options())
    assert outcome.problem == f"{file}:11: not so: a went elsewhere"
    assert not outcome.is_ok


def test_its_plugins_and_configuration(tmp_path: Path) -> None:
    more = """
import stowplan

@stowplan.filter
def nowhere(pod, node):
    return "I like no node"

plugins = [nowhere]
"""
    (playable,) = read_playables(written(tmp_path, more=more))
    outcome = playable.play("virtual", Options())
    assert outcome.placements == {"default/a": ""}
    (configured,) = read_playables(
        written(tmp_path, more="config = {'profiles': [{'schedulerName': 'other'}]}")
    )
    assert configured.play("virtual", Options()).placements == {"default/a": ""}


def test_a_configuration_of_the_command_line_goes_first(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: other}]\n"
    )
    wishes = Wishes(config_file=str(config))
    (playable,) = read_playables(written(tmp_path), wishes)
    assert playable.play("virtual", Options()).placements == {"default/a": ""}
    (workload, *_) = read_playables(SHOP, wishes)
    options = workload.prepare(Options())
    assert options.config is not None
    assert options.config.profiles[0].scheduler_name == "other"


def test_neighbours_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_a_story.py").write_text("NAME = 'n1'\n")
    file = written(tmp_path, more="import neighbour_of_a_story")
    assert read_playables(file)


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("x = = 1\n", ":1", "is not Python: invalid syntax: `x = = 1`"),
        ("\n\nimport nothing_like_this\n", ":3", "ModuleNotFoundError: No module named"),
        ("x = 1\n", "story.py", "has no `async def scenario(cluster)`"),
        ("def scenario(cluster): pass\n", ":1", "must be a function made with `async def`"),
        ("scenario = 5\n", "story.py", "must be a function made with `async def`"),
        ("async def scenario(): pass\n", ":1", "must take one argument, the cluster"),
        ("async def scenario(c): pass\nseed = 'x'\n", "seed", "must be a whole number"),
        ("async def scenario(c): pass\nplugins = [5]\n", "plugins", "is not a plugin class"),
        ("async def scenario(c): pass\nconfig = 5\n", "config", "a file name or a mapping"),
    ],
)
def test_mistakes_in_python(tmp_path: Path, text: str, where: str, message: str) -> None:
    file = tmp_path / "story.py"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_playables(file)
    assert f"{file}" in refused.value.where
    assert where in refused.value.where
    assert message in refused.value.message


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for name in ("none.py", "none.yaml"):
        with pytest.raises(ConfigError, match=name):
            read_playables(tmp_path / name)


def test_workloads_are_chosen_by_name_and_label() -> None:
    everything = read_playables(SHOP)
    assert everything
    first = everything[0].name
    assert [each.name for each in read_playables(SHOP, Wishes(pattern=first))] == [first]
    with pytest.raises(ConfigError, match="no workload is called"):
        read_playables(SHOP, Wishes(pattern="nobody"))
    with pytest.raises(ConfigError, match="has the labels"):
        read_playables(SHOP, Wishes(labels=("no-such-label",)))


def test_a_workload_that_cannot_be_played_says_why(tmp_path: Path) -> None:
    file = tmp_path / "performance-config.yaml"
    file.write_text(
        "- name: Dynamic\n"
        "  workloadTemplate: [{opcode: createNodes, count: 1}]\n"
        "  workloads: [{name: one, params: {numNodeDeclaredFeatures: 1}}]\n"
    )
    with pytest.raises(ConfigError, match="Dynamic/one cannot be played: "):
        read_playables(file)
