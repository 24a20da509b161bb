"""A task runs again if a file that it depends on changes, however indirectly."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stowplan.errors import ConfigError
from stowplan.sim.sweep.dependencies import named_files
from stowplan.sim.sweep.document import read_sweep
from stowplan.sim.sweep.playing import play
from stowplan.sim.sweep.tasks import Task

NODES = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}}
"""
SCENARIO = "cluster: {nodes: [{name: n1, cpu: 4}]}\nsteps:\n- create: {pods: [{name: a, cpu: 1}]}\n"
LAYOUT = "fields: {arrival: {column: at}, cpu: {column: cores, factor: 1}}\n"
NODE_LAYOUT = "of: nodes\nfields: {name: {column: machine}, cpu: {column: cores}}\n"
PLUGIN = """
import pkg.sizes
from helper import WEIGHT
from stowplan import Plugin

class V1(Plugin):
    name = "Mine"

    def score(self, state, pod, node):
        from late import lazy
        return WEIGHT

class V2(V1):
    pass
"""
PYTHON = """
import helper
config = "config.yaml"
plugins: list[str] = ["own.py:V1"]

async def scenario(cluster):
    await cluster.create_node("node")
"""
FILES = {
    "nodes.yaml": NODES,
    "scenario.yaml": SCENARIO,
    "pods.csv": "at,cores\n1,1\n",
    "machines.csv": "machine,cores\nn1,4\n",
    "layout.yaml": LAYOUT,
    "node_layout.yaml": NODE_LAYOUT,
    "config.yaml": "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n",
    "p.py": PLUGIN,
    "own.py": PLUGIN.replace('"Mine"', '"Own"'),
    "sweep_dependencies_plugin.py": PLUGIN.replace('"Mine"', '"Module"'),
    "helper.py": "WEIGHT = 1\n",
    "late.py": "lazy = 1\n",
    "pkg/__init__.py": "",
    "pkg/sizes.py": "from .deep import *\n",
    "pkg/deep.py": "from . import deeper\n",
    "pkg/deeper.py": "import pkg.sizes\n",
    "scenario.py": PYTHON,
    "plugged.yaml": f"plugins: ['p.py:V1', 'sweep_dependencies_plugin:V1']\n{SCENARIO}",
    "unrelated.py": "",
    "unrelated.yaml": "",
}
CSV = """
workloads:
- {trace: pods.csv, columns: layout.yaml, nodes: machines.csv, nodeColumns: node_layout.yaml}
"""
FILE_PLUGIN = "workloads: [{scenario: scenario.yaml}]\nplugins: ['p.py:V1']\n"
MODULE_PLUGIN = FILE_PLUGIN.replace("p.py", "sweep_dependencies_plugin")
CODE = ("helper.py", "late.py", "pkg/__init__.py", "pkg/sizes.py", "pkg/deep.py", "pkg/deeper.py")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in FILES:  # loaded by another test, from another folder
        if name.endswith(".py"):
            module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            monkeypatch.delitem(sys.modules, module, raising=False)
    (tmp_path / "sweep").mkdir()
    for name, text in FILES.items():
        path = tmp_path / "sweep" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path / "sweep"


def task_of(folder: Path, text: str) -> Task:
    (folder / "sweep.yaml").write_text(text)
    (task,) = read_sweep(folder / "sweep.yaml").tasks
    return task


def change(path: Path) -> None:
    more = "0" if path.suffix == ".csv" else "\n# a comment"
    path.write_text(f"{path.read_text().rstrip()}{more}\n")


@pytest.mark.parametrize(
    ("text", "used"),
    [
        (CSV, {"pods.csv", "layout.yaml", "machines.csv", "node_layout.yaml"}),
        (FILE_PLUGIN, {"scenario.yaml", "p.py", *CODE}),
        (MODULE_PLUGIN, {"scenario.yaml", "sweep_dependencies_plugin.py", *CODE}),
        (
            "workloads: [{scenario: plugged.yaml}]",
            {"plugged.yaml", "p.py", "sweep_dependencies_plugin.py", *CODE},
        ),
        (
            "workloads: [{scenario: scenario.py}]",
            {"scenario.py", "config.yaml", "own.py", *CODE},
        ),
    ],
)
def test_the_key_has_every_file_that_is_used_and_no_other(
    folder: Path, text: str, used: set[str]
) -> None:
    before = task_of(folder, text).key
    found = set()
    for name, content in FILES.items():
        change(folder / name)
        if task_of(folder, text).key != before:
            found.add(name)
        (folder / name).write_text(content)
    assert found == used
    assert task_of(folder, text).key == before


@pytest.mark.parametrize("text", [CSV, FILE_PLUGIN, "workloads: [{scenario: scenario.py}]"])
def test_files_can_be_moved(folder: Path, text: str) -> None:
    before = task_of(folder, text)
    shutil.move(folder, folder.with_name("elsewhere"))
    after = task_of(folder.with_name("elsewhere"), text)
    assert after.key == before.key
    assert after.workload.file != before.workload.file


def test_the_key_has_the_class_and_the_order_of_plugins(folder: Path) -> None:
    texts = [FILE_PLUGIN, FILE_PLUGIN.replace(":V1", ":V2")]
    both = ["'p.py:V1', 'own.py:V1'", "'own.py:V1', 'p.py:V1'"]
    texts += [FILE_PLUGIN.replace("'p.py:V1'", each) for each in both]
    assert len({task_of(folder, text).key for text in texts}) == len(texts)


def test_a_built_in_layout_counts_by_its_name(folder: Path) -> None:
    (folder / "machine.csv").write_text("m_1,0,1,1,96,100,USING\n")
    text = CSV.replace("machines.csv", "machine.csv").replace(
        "node_layout.yaml", "alibaba-2018-machine-meta"
    )
    task = task_of(folder, text)
    assert task.workload.node_columns == "alibaba-2018-machine-meta"
    assert task.workload.inputs.layouts[1] == "alibaba-2018-machine-meta"


def test_layouts_and_modules_are_found_from_any_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    assert play(task_of(folder, CSV)).row["pods"] == 1
    assert play(task_of(folder, MODULE_PLUGIN)).row["placed"] == 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (CSV, "layout.yaml"),
        (CSV, "node_layout.yaml"),
        (FILE_PLUGIN, "helper.py"),
        (MODULE_PLUGIN, "sweep_dependencies_plugin.py"),
        ("workloads: [{scenario: scenario.py}]", "config.yaml"),
        ("workloads: [{scenario: scenario.py}]", "pkg/deep.py"),
    ],
)
def test_a_worker_with_other_files_refuses_the_task(folder: Path, text: str, name: str) -> None:
    task = task_of(folder, text)
    change(folder / name)
    with pytest.raises(ConfigError, match="has other contents than when the sweep began"):
        play(task)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (CSV.replace(" layout.yaml", " none.yaml"), r"sweep.yaml:3: .*`columns`: 'none.yaml' is n"),
        (CSV.replace("node_layout", "none"), "`nodeColumns`: 'none.yaml' is neither a file nor"),
        (CSV.replace(" layout.yaml", f" {'x' * 300}"), "is neither a file nor one of the built-in"),
        (CSV.replace(" layout.yaml", " pkg"), "is neither a file nor one of the built-in"),
        (CSV.replace(" layout.yaml", " scenario.yaml"), "scenario.yaml:1: layout: unknown field"),
        (FILE_PLUGIN.replace("p.py", r"a\0b.py").replace("'", '"'), "has a null character"),
        (CSV.replace("pods.csv", r'"a\0b"'), "has a null character"),
    ],
)
def test_mistakes(folder: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        task_of(folder, text)
    assert str(caught.value).startswith(f"{folder / 'sweep.yaml'}:")


@pytest.mark.parametrize(
    "code",
    ["import (", "x = " + "(" * 3000, "x = '\0'", "from .......... import a", "import a.b.c, *"],
)
def test_code_that_cannot_be_read_names_nothing(tmp_path: Path, code: str) -> None:
    (tmp_path / "a.py").write_text(code)
    assert named_files([tmp_path / "a.py"]) == []


def test_installed_packages_are_not_followed(tmp_path: Path) -> None:
    inside = tmp_path / "lib" / "site-packages"
    inside.mkdir(parents=True)
    (inside / "a.py").write_text("import b\n")
    (inside / "b.py").write_text("")
    (tmp_path / "c.py").write_text("import json, msgspec, stowplan, d\n")
    (tmp_path / "d.py").write_text("")
    assert named_files([inside / "a.py", tmp_path / "c.py"]) == [tmp_path / "d.py"]


def test_names_that_are_repeated_are_looked_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "many.yaml").write_text("- word:x\n- [nodes.yaml, {a: nodes.yaml}]\n" * 500)
    (tmp_path / "nodes.yaml").write_text("")
    asked: list[Path] = []
    is_file: Callable[[Path], bool] = Path.is_file

    def counted(path: Path) -> bool:
        asked.append(path)
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", counted)
    assert named_files([tmp_path / "many.yaml"]) == [tmp_path / "nodes.yaml"]
    assert sum(each.name == "nodes.yaml" for each in asked) == 1
    assert len(asked) < 200
