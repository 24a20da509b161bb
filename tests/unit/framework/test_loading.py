"""Plugins by name: what users can write, and what their mistakes are answered with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import stowplan
from stowplan.errors import ConfigError
from stowplan.framework.loading import find_plugin
from stowplan.framework.registry import Registry
from stowplan.plugins.registry import in_tree_registry

GOOD = """\
import stowplan

class SsdOnly(stowplan.Plugin):
    name = "SsdOnly"

    def filter(self, pod, node):
        return True

@stowplan.filter
def on_ssd(pod, node):
    return True

def plain(pod, node):
    return True

class Other:
    pass

made = SsdOnly()
"""


def find(folder: Path, named: object, text: str = GOOD) -> type[stowplan.Plugin]:
    (folder / "mine.py").write_text(text)
    return find_plugin(named, in_tree_registry(), folder=folder, where="--plugin")


@pytest.mark.parametrize("named", ["mine.py:SsdOnly", "mine.py:on_ssd", "NodeName"])
def test_plugins_of_files_and_known_ones(tmp_path: Path, named: str) -> None:
    assert issubclass(find(tmp_path, named), stowplan.Plugin)


def test_modules_are_found_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "mine_as_a_module.py").write_text(GOOD)
    assert find(tmp_path, "mine_as_a_module:SsdOnly").name == "SsdOnly"


@pytest.mark.parametrize("named", ["mine.py:SsdOnly", "mine:SsdOnly"])
def test_equal_names_in_two_folders_are_two_modules(tmp_path: Path, named: str) -> None:
    text = "import neighbour.names\n" + GOOD.replace('"SsdOnly"', "neighbour.names.NAME")
    for folder in ("One", "Two", "One"):
        package = tmp_path / folder / "neighbour"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").touch()
        (package / "names.py").write_text(f"NAME = '{folder}'")
        assert find(tmp_path / folder, named, text).name == folder
        again = find(tmp_path / folder, "mine:SsdOnly", text)
        assert find(tmp_path / folder, "mine:SsdOnly", text) is again


def test_modules_of_the_path_are_loaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "on_the_path.py").write_text(GOOD)
    monkeypatch.syspath_prepend(tmp_path)
    found = find(tmp_path, "on_the_path:SsdOnly")
    (tmp_path / "elsewhere").mkdir()
    find(tmp_path / "elsewhere", "mine.py:SsdOnly")
    assert find(tmp_path, "on_the_path:SsdOnly") is found
    del sys.modules["on_the_path"]


def test_a_file_that_runs_a_scheduler_starts_none(tmp_path: Path) -> None:
    text = GOOD + "stowplan.run(SsdOnly, scheduler_name='mine')\n"
    assert find(tmp_path, "mine.py:SsdOnly", text).name == "SsdOnly"
    assert stowplan.run.__module__ == "stowplan.server.library", "and it is itself again"


@pytest.mark.parametrize(
    ("named", "text", "message"),
    [
        (
            "mine.py:SsdOnly",
            "x = 1\ny = (\n",
            r"mine\.py:2: is not Python: '\(' was never closed: `y",
        ),
        ("mine.py:SsdOnly", "\nx = 1 / 0\n", r"mine\.py:2: cannot be loaded: ZeroDivisionError: "),
        (
            "mine.py:SsdOnly",
            "import json\n\njson.loads('{')\n",
            r"mine\.py:3: cannot be loaded: JSONDecodeError: ",
        ),
        (
            "mine.py:SsdOnly",
            "import nothing_here\n",
            r"mine\.py:1: .*No module named 'nothing_here'",
        ),
        ("mine.py:SsdOnly", "import sys\nsys.exit(3)\n", r"mine\.py:2: exits while it is loaded"),
        ("mine.py:SSDOnly", GOOD, r"no SSDOnly in mine\.py; it has SsdOnly, on_ssd$"),
        ("mine.py:SsdOnly", "x = 1\n", r"no SsdOnly in mine\.py; it has no plugin class$"),
        ("mine.py:plain", GOOD, r"the function plain is not a plugin class\. Fix: decorate"),
        ("mine.py:Other", GOOD, r"the class Other is not a plugin class\. Fix: .*stowplan\.Plugin"),
        (
            "mine.py:made",
            GOOD,
            r"an instance of SsdOnly is not a plugin class\. Fix: give the class",
        ),
        ("gone.py:SsdOnly", GOOD, r"gone\.py: there is no such file"),
        ("no.such.module:X", GOOD, r"--plugin: there is no module no\.such\.module\. Fix: "),
        (":X", GOOD, r"`:X` names no plugin; write module:Class"),
        ("Nothing", GOOD, r"there is no plugin `Nothing`; write module:Class"),
        (7, GOOD, r"7 is not a plugin class"),
    ],
)
def test_mistakes_are_one_line_with_their_place(
    tmp_path: Path, named: object, text: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        find(tmp_path, named, text)
    assert len(str(refused.value).splitlines()) == 1


def test_a_syntax_error_in_a_neighbour_names_the_neighbour(tmp_path: Path) -> None:
    (tmp_path / "broken_neighbour.py").write_text("\ndef f(:\n")
    with pytest.raises(ConfigError, match=r"broken_neighbour\.py:2: is not Python: "):
        find(tmp_path, "mine.py:SsdOnly", "import broken_neighbour\n")


@pytest.mark.parametrize("name", ["SsdOnly", "on_ssd"])
def test_two_plugins_of_one_name_are_told_with_both_places(tmp_path: Path, name: str) -> None:
    registry = Registry([find(tmp_path, f"mine.py:{name}")])
    (tmp_path / "theirs.py").write_text("\n\n" + GOOD)
    theirs = find_plugin(f"theirs.py:{name}", registry, folder=tmp_path, where="")
    line = {"SsdOnly": 3, "on_ssd": 9}[name]
    with pytest.raises(ConfigError) as refused:
        registry.register(theirs)
    assert f"two plugins are called '{name}'" in str(refused.value)
    assert f"{tmp_path}/mine.py:{line} and {name} in {tmp_path}/theirs.py:{line + 2}" in str(
        refused.value
    )


def test_one_class_that_was_loaded_twice_is_one_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an installed package, and by its file: the file on the command line counts."""
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry([find(tmp_path, "mine:SsdOnly")])
    again = find(tmp_path, "mine.py:SsdOnly")
    registry.register(again)
    assert registry.get("SsdOnly") is again
    del sys.modules["mine"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["team.py"], "team.py has TeamNodes. Fix: write team.py:TeamNodes"),
        (["empty.py"], "empty.py has no plugin class"),
        (["team.py:TeamNodes", "team.py:TeamNodes"], "team.py:TeamNodes is given twice"),
    ],
)
def test_plugin_options_that_name_no_class_or_one_twice(
    tmp_path: Path, options: list[str], told: str
) -> None:
    (tmp_path / "team.py").write_text(
        "import stowplan\n\nclass TeamNodes(stowplan.Plugin):\n    name = 'TeamNodes'\n\n"
        "    def filter(self, pod, node):\n        return True\n"
    )
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "steps.yaml").write_text("steps:\n- create:\n    nodes:\n    - {name: one}\n")
    flags = [part for each in options for part in ("--plugin", each)]
    for command in (["run"], ["simulate", "steps.yaml"]):
        ended = subprocess.run(
            [sys.executable, "-m", "stowplan", *command, *flags],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            timeout=60,
        )
        assert ended.returncode == 2
        assert ended.stderr == f"Error: --plugin: {told}\n"
