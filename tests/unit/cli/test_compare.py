"""`stowplan compare`: names of runs, folders of sweeps, and files that cannot be written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from stowplan.cli.main import cli
from stowplan.errors import ConfigError
from stowplan.sim.results.files import save
from tests.unit.sim.results.test_results import runs

FIT_5 = "days, most, fit=5, spread=1, seed 0"


def swept(folder: Path, **runs_by_name: str) -> list[str]:
    """The folder of a sweep that kept runs of these names; returns their files."""
    (folder / "runs").mkdir(parents=True)
    (folder / "results.jsonl").write_text("")
    files = [folder / "runs" / f"{key:0>32}.json.gz" for key in runs_by_name]
    for file, name in zip(files, runs_by_name.values(), strict=True):
        save(replace(runs()[0], name=name), file)
    return list(map(str, files))


@pytest.mark.parametrize("name", ["", "runs"])
def test_the_folder_of_a_sweep_is_no_run(tmp_path: Path, name: str) -> None:
    (first, second) = swept(tmp_path / "w", a="x", b="y")
    refused = CliRunner().invoke(cli, ["compare", str(tmp_path / "w" / name)])
    what = f"{tmp_path / 'w' / name}: is a folder of a sweep, not a run. Fix: "
    assert str(refused.exception) == (
        f"{what}give files, such as {first}; results.csv has their names in the column `task`"
    )
    for file in (first, second):
        Path(file).unlink()
    refused = CliRunner().invoke(cli, ["compare", str(tmp_path / "w" / name)])
    assert str(refused.exception) == (
        f"{what}run the sweep again with --keep runs, and give files of its folder runs"
    )


def test_runs_of_a_sweep_are_named_by_what_differs(tmp_path: Path) -> None:
    files = swept(tmp_path, a="days, most, fit=1, spread=1, seed 0", b=FIT_5)
    save(runs()[0], tmp_path / "own.json")
    compared = ["compare", str(tmp_path / "own.json"), *files]
    shown = CliRunner().invoke(cli, compared).output
    assert shown.splitlines()[0].split() == ["own.json", "fit=1", "fit=5"]
    pods = tmp_path / "pods.csv"
    data = CliRunner().invoke(cli, [*compared, "-o", "json", "--pods", str(pods)]).stdout
    assert [each["name"] for each in json.loads(data)["runs"]][2] == FIT_5
    CliRunner().invoke(cli, [*compared, "--pods", str(pods)])
    assert f'"{FIT_5}"' in pods.read_text(), "as in results.csv"
    alone = CliRunner().invoke(cli, ["compare", files[0]]).output
    assert alone.splitlines()[0].strip() == "days, most, fit=1, spread=1, seed 0"
    twice = CliRunner().invoke(cli, ["compare", files[0], files[0]]).output
    assert twice.splitlines()[0].strip().endswith("spread=1, seed 0 (2)")
    others = swept(tmp_path / "other", c="days, seed 0")
    mixed = CliRunner().invoke(cli, ["compare", files[0], *others]).output
    assert "spread=1, seed 0   days, seed 0" in mixed


@pytest.mark.parametrize("name", ["full.csv", "full.parquet", "full.html"])
def test_figures_are_shown_before_a_file_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    for run in runs():
        save(run, tmp_path / f"{run.name}.json")
    (tmp_path / name).symlink_to("/dev/full")
    option = "--html" if name.endswith("html") else "--pods"
    files = [str(tmp_path / "A.json"), str(tmp_path / "B.json")]
    arguments = ["compare", *files, option, str(tmp_path / name), "--fail-on", "pods>1"]
    failed = CliRunner().invoke(cli, arguments)
    assert isinstance(failed.exception, ConfigError)
    where = f"{tmp_path / name}: cannot be written: No space left on device"
    assert str(failed.exception).startswith(where)
    if option == "--pods":
        assert str(failed.exception).startswith(f"{where}. Fix: name a file on a disk with free")
    assert failed.stdout.splitlines()[0].split() == ["A.json", "B.json"]
    assert "FAIL B.json: pods is 4 (>1)" in failed.stderr


def test_a_name_for_each_run(tmp_path: Path) -> None:
    refused = CliRunner().invoke(cli, ["compare", "a.json", "b.json", "--name", "a"])
    assert "--name gives 1 name for 2 runs. Fix: give it once for each file" in refused.output


@pytest.mark.parametrize(
    ("condition", "fix"),
    [("cpu>1.1x", "give two runs, or an absolute value"), ("moved>0", "give two runs")],
)
def test_one_run_has_nothing_to_compare_with(tmp_path: Path, condition: str, fix: str) -> None:
    save(runs()[0], tmp_path / "a.json")
    refused = CliRunner().invoke(cli, ["compare", str(tmp_path / "a.json"), "--fail-on", condition])
    assert isinstance(refused.exception, ConfigError)
    assert str(refused.exception) == (
        f"--fail-on {condition}: compares with the first run, and there is no other run. Fix: {fix}"
    )
