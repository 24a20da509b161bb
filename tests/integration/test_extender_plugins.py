"""`stowplan extender --plugins DIR`: an algorithm of the user's own, from a folder, as a process.

tests/integration/test_package.py does the same with the pex and the image.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.extender_kit import extender
from tests.waiting import wait_for

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples" / "extender"
OF_RACK_A = {
    "Pod": {"metadata": {"name": "x", "labels": {"rack": "a"}}},
    "NodeNames": ["a-1", "b-1"],
}
ALGORITHM = """\
import yaml
from stowplan.extender import Algorithm, ExtenderFilterResult


class Mine(Algorithm):
    def filter(self, extender_args):
        assert yaml.safe_load("a: 1") == {"a": 1}, "ours, not the one of the folder"
        return ExtenderFilterResult(NodeNames=[], FailedNodes={"b-1": "mine"})

    def prioritize(self, extender_args):
        return extender_args.NodeNames[7]
"""


def refused(tmp_path: Path, config: str, *flags: str) -> str:
    """The line with which it ends."""
    file = tmp_path / "config.yaml"
    file.write_text(config)
    done = subprocess.run(
        [sys.executable, "-m", "stowplan", "extender", f"--config={file}", *flags],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    lines = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert "Traceback" not in done.stderr
    (line,) = lines
    return line.removeprefix("Error: ").removeprefix("Cannot load config file! : ")


def test_the_example_from_its_folder(tmp_path: Path) -> None:
    config = (EXAMPLE / "config.yaml").read_text()
    with extender(tmp_path, config, f"--plugins={EXAMPLE}") as running:
        assert running.ask("/filter", OF_RACK_A)["NodeNames"] == ["a-1"]


def test_folders_by_the_flag_and_the_variable(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ALGORITHM)
    (tmp_path / "yaml.py").write_text("raise AssertionError('must not replace the real one')\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    variable = {"STOWPLAN_PLUGINS": f"{empty}:{tmp_path}"}
    config = "algorithms: [mine:Mine, racks:Racks]\nalgorithm: !Mine\n"
    with extender(tmp_path, config, f"--plugins={EXAMPLE}", env=variable) as running:
        assert running.ask("/filter", OF_RACK_A)["FailedNodes"] == {"b-1": "mine"}


def test_an_entry_point_in_the_folder(tmp_path: Path) -> None:
    """What `pip install --target DIR` leaves there."""
    (tmp_path / "mine.py").write_text(ALGORITHM)
    about = tmp_path / "mine-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[stowplan.extender_algorithms]\nmine = mine:Mine\n")
    with extender(tmp_path, "algorithm: !Mine\n", f"--plugins={tmp_path}") as running:
        assert running.ask("/filter", OF_RACK_A)["FailedNodes"] == {"b-1": "mine"}


def test_an_algorithm_that_raises_is_told_with_its_line_once(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ALGORITHM)
    config = "algorithms: [mine:Mine]\nalgorithm: !Mine\n"
    with extender(tmp_path, config, f"--plugins={tmp_path}") as running:
        for _ in range(3):
            with pytest.raises(AssertionError, match=rf"IndexError.*{tmp_path}/mine\.py:11\)"):
                running.ask("/prioritize", OF_RACK_A)
        wait_for("the log", lambda: "stacktrace" in running.log)
        assert running.log.count("The algorithm failed") == 1
        assert running.log.count("Traceback") == 1
        assert f"{tmp_path}/mine.py:11" in running.log


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        (
            "",
            "ModuleNotFoundError: No module named 'mine'. Fix: name the folder that holds mine or "
            "mine.py with --plugins DIR",
        ),
        ("def (\n", "SyntaxError: invalid syntax (mine.py, line 1)"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3 (algorithms/mine.py:2)"),
        ("x = 1\ny = x / 0\n", "ZeroDivisionError: division by zero (algorithms/mine.py:2)"),
        (
            "x = 1\n",
            "AttributeError: module 'mine' has no attribute 'Mine' (it is {folder}/mine.py)",
        ),
        (
            "import no_such_library\n",
            "ModuleNotFoundError: No module named 'no_such_library' (algorithms/mine.py:1). Fix: "
            "install it into a folder of --plugins (pip install --target DIR)",
        ),
        (
            "from wca.scheduler.algorithms import Algorithm\n",
            "ModuleNotFoundError: No module named 'wca' (algorithms/mine.py:1). Fix: import the "
            "same names from stowplan.extender",
        ),
    ],
    ids=[
        "no module",
        "syntax",
        "exits",
        "raises",
        "no class",
        "no library",
        "the original's import",
    ],
)
def test_a_module_that_cannot_be_imported(tmp_path: Path, module: str, problem: str) -> None:
    folder = tmp_path / "algorithms"
    folder.mkdir()
    if module:
        (folder / "mine.py").write_text(module)
    config = "algorithms: [mine:Mine]\nalgorithm: !Mine\n"
    told = refused(tmp_path, config, f"--plugins={folder}")
    assert told.partition("line 1, column 13: ")[2] == problem.format(folder=folder)


def test_a_class_that_inherits_from_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine:\n    pass\n")
    config = "algorithms: [mine:Mine]\nalgorithm: !Mine\n"
    told = refused(tmp_path, config, f"--plugins={tmp_path}")
    assert "Fix: let class Mine inherit from stowplan.extender.Algorithm" in told


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    told = refused(tmp_path, "algorithm: !NOPAlgorithm\n", "--plugins=nowhere")
    assert told == "--plugins: 'nowhere' is not a folder"
