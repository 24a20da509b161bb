"""`stowplan.sim.load`: results as DataFrames."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pytest

import stowplan.sim
from stowplan.errors import ConfigError
from stowplan.sim.results.files import save
from stowplan.sim.results.run import FORMAT, SAMPLED, PodLife, Run
from stowplan.sim.sweep.folder import opened
from stowplan.sim.sweep.playing import Played
from tests.unit.recording.test_gaps import rotated

#: The name of a file in a folder of recordings.
DAMAGED: Final = "2026-01-02T030405Z.jsonl.gz"


def run(name: str = "a") -> Run:
    pods = {
        "default/old": PodLife(0.0, 0.0, "n1", was_placed=True),
        "default/new": PodLife(1.0, 3.5, "n1", 9.0),
        "default/waits": PodLife(2.0),
    }
    samples = {each: [0.0, 1.0] for each in SAMPLED}
    return Run(run=FORMAT, name=name, seconds=10.0, pods=pods, samples=samples, cost=2.0)


def test_results_are_frames(tmp_path: Path) -> None:
    save(run(), tmp_path / "a.json")
    save(run(), tmp_path / "b.json.gz")
    results = stowplan.sim.load([tmp_path / "a.json", str(tmp_path / "b.json.gz")])
    assert list(results.summary["run"]) == ["a.json", "b.json.gz"]
    assert list(results.summary["cost"]) == [2.0, 2.0]
    pods = results.pods[results.pods["run"] == "a.json"].set_index("pod")
    assert pods["waited"].to_dict()["default/new"] == 2.5
    assert pods["waited"].isna().to_dict() == {
        "default/old": True,
        "default/new": False,
        "default/waits": True,
    }
    assert repr(results) == "Results(2 runs: .summary, .pods, .utilisation)"
    assert list(results.utilisation.columns) == ["run", *SAMPLED]
    assert len(results.utilisation) == 4


def test_one_file_needs_no_list(tmp_path: Path) -> None:
    save(run(), tmp_path / "a.json")
    assert len(stowplan.sim.load(tmp_path / "a.json").pods) == 3


def test_a_folder_of_recordings_is_a_run(tmp_path: Path) -> None:
    rotated(tmp_path / "recordings")
    results = stowplan.sim.load(tmp_path / "recordings")
    assert list(results.summary["run"]) == ["recordings"]
    assert list(results.summary["gaps"]) == [2]
    assert len(results.pods) == 11


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing", "cannot be read: No such file or directory. Fix: give a recording, or a file"),
        ("x" * 300, "cannot be read: File name too long. Fix: "),
        ("empty", "has no results.jsonl, and no recordings. Fix: "),
        (f"damaged/{DAMAGED}", "is not a recording, or its beginning is lost. Fix: "),
    ],
    ids=["missing", "long", "empty", "damaged"],
)
def test_what_is_no_result_is_an_error(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / DAMAGED).write_bytes(bytes(1000))
    with pytest.raises(ConfigError) as error:
        stowplan.sim.load(tmp_path / name.removesuffix(f"/{DAMAGED}"))  # its folder
    assert str(error.value).startswith(f"{tmp_path / name}: {why}")


def test_a_sweep_is_its_rows_and_its_runs(tmp_path: Path) -> None:
    row = {"task": "k", "run": "a", "weight": 3, "cpu": 0.5}
    with opened(tmp_path / "sweep") as folder:
        folder.add(Played("k", row))
        folder.write_results([row])
    results = stowplan.sim.load(tmp_path / "sweep")
    assert results.summary["weight"].tolist() == [3]
    assert repr(results) == "Results(1 run: .summary)"
    with pytest.raises(ConfigError, match=r"has no runs\. Fix: run the sweep again"):
        _ = results.pods
    (tmp_path / "sweep" / "runs").mkdir()
    save(run(), tmp_path / "sweep" / "runs" / "k.json.gz")
    assert stowplan.sim.load(tmp_path / "sweep").pods["run"].unique().tolist() == ["a"]


def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        stowplan.sim.load(tmp_path / "none.json")
    with pytest.raises(ConfigError, match=r"has no results\.jsonl"):
        stowplan.sim.load(tmp_path)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match=r"needs pandas, .* pip install 'stowplan\[data\]'"):
        stowplan.sim.load(tmp_path)
