"""Plugins of installed distributions: found wherever `importlib.metadata` finds them."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from stowplan.framework.installed import installed_entry_points

GROUP = "stowplan.plugins"
ENTRIES = "[console_scripts]\nx = x:x\n\n[stowplan.plugins]\nmine = some_module:Plugin\n"
METADATA = "Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n"


def in_a_directory(place: Path, suffix: str = "dist-info") -> str:
    info = place / f"brought-1.0.{suffix}"
    info.mkdir()
    (info / ("METADATA" if suffix == "dist-info" else "PKG-INFO")).write_text(METADATA)
    (info / "entry_points.txt").write_text(ENTRIES)
    return str(place)


def in_an_archive(place: Path) -> str:
    with zipfile.ZipFile(place / "brought.zip", "w") as archive:
        archive.writestr("brought-1.0.dist-info/METADATA", METADATA)
        archive.writestr("brought-1.0.dist-info/entry_points.txt", ENTRIES)
    return str(place / "brought.zip")


def in_an_egg(place: Path) -> str:
    info = place / "brought-1.0-py3.egg" / "EGG-INFO"
    info.mkdir(parents=True)
    (info / "PKG-INFO").write_text(METADATA)
    (info / "entry_points.txt").write_text(ENTRIES)
    return str(info.parent)


@pytest.mark.parametrize(
    "install",
    [
        in_a_directory,
        lambda place: in_a_directory(place, "egg-info"),
        in_an_archive,
        in_an_egg,
    ],
    ids=["dist-info", "egg-info", "archive", "egg"],
)
def test_found_in_every_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Callable[[Path], str]
) -> None:
    monkeypatch.syspath_prepend(install(tmp_path))
    assert [entry.name for entry in installed_entry_points(GROUP)] == ["mine"]


def test_found_by_a_finder_of_somebody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = in_a_directory(tmp_path)

    class Finder:
        def find_spec(self, *_: Any) -> None:
            return None

        def find_distributions(self, *_: Any) -> Iterable[metadata.Distribution]:
            return [metadata.Distribution.at(Path(place, "brought-1.0.dist-info"))]

    assert list(installed_entry_points(GROUP)) == []
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    assert [entry.name for entry in installed_entry_points(GROUP)] == ["mine"]


def test_what_cannot_be_read_is_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flat-1.0.egg-info").write_text(METADATA)
    (tmp_path / "empty-1.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path / "absent"))
    assert list(installed_entry_points(GROUP)) == []
