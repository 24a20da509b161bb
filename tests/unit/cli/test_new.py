"""`stowplan new plugin`: names, what is written, and that nothing is overwritten."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from stowplan.cli.new import names_of, new
from stowplan.config.load import parse_config
from stowplan.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "plugin", "module"),
    [
        ("SsdOnly", "SsdOnly", "ssd_only"),
        ("ssd-only", "SsdOnly", "ssd_only"),
        ("ssd_only", "SsdOnly", "ssd_only"),
        ("rack", "Rack", "rack"),
        ("GPUFirst", "GPUFirst", "gpu_first"),
        ("Zone2Zone", "Zone2Zone", "zone2_zone"),
    ],
)
def test_one_name_in_all_spellings(given: str, plugin: str, module: str) -> None:
    names = names_of(given)
    assert (names.plugin, names.module, names.project) == (
        plugin,
        module,
        module.replace("_", "-"),
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "must begin with a letter"),
        ("2fast", "must begin with a letter"),
        ("../evil", "must begin with a letter"),
        ("ssd--only", "must begin with a letter"),
        ("ünlaut", "must begin with a letter"),
        ("x" * 41, "must not be longer than 40"),
        ("class", "Python already has"),
        ("json", "Python already has"),
        ("stowplan", "is taken"),
        ("NodeAffinity", "Stowplan already has"),
    ],
)
def test_names_that_do_not_do_are_refused_in_words(given: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        names_of(given)


def test_a_package_is_made_and_told(tmp_path: Path) -> None:
    result = CliRunner().invoke(new, ["plugin", "SsdOnly", "--dir", str(tmp_path)])
    assert result.exit_code == 0, result.output
    package = tmp_path / "ssd-only"
    made = sorted(str(path.relative_to(package)) for path in package.rglob("*") if path.is_file())
    assert made == [
        "README.md",
        "config.yaml",
        "pyproject.toml",
        "scenario.yaml",
        "src/ssd_only/__init__.py",
        "src/ssd_only/py.typed",
        "tests/test_ssd_only.py",
    ]
    assert "pytest --stowplan-plugin ssd_only:SsdOnly" in result.output
    for path in package.rglob("*"):
        if path.is_file():
            assert "{{plugin" not in path.read_text()
            assert "{{module" not in path.read_text()
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["stowplan.plugins"] == {"ssd-only": "ssd_only:SsdOnly"}
    parse_config((package / "config.yaml").read_text())
    scenario = yaml.safe_load((package / "scenario.yaml").read_text())
    assert scenario["plugins"] == ["ssd_only:SsdOnly"]
    assert scenario["cluster"]["nodes"][0]["labels"] == {"example.com/ssd-only": "red"}


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "ssd-only").mkdir()
    mine = tmp_path / "ssd-only" / "notes.txt"
    mine.write_text("mine")
    result = CliRunner().invoke(new, ["plugin", "SsdOnly", "--dir", str(tmp_path)])
    assert isinstance(result.exception, ConfigError)
    assert "already exists and is not overwritten" in str(result.exception)
    assert [path.name for path in (tmp_path / "ssd-only").iterdir()] == ["notes.txt"]


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(new, ["plugin", "SsdOnly", "--dir", str(tmp_path / "file" / "x")])
    assert isinstance(result.exception, ConfigError)
    assert "cannot be written" in str(result.exception)
