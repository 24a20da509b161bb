"""Lessons as they lie on disk, also after an installer has been there."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from stowplan.learn.course import Course
from stowplan.learn.workbook import Workbook


def test_what_an_installer_leaves_beside_given_files_is_not_given(tmp_path: Path) -> None:
    lesson = Course().find("deploy")
    installed = tmp_path / lesson.folder.name
    shutil.copytree(lesson.folder, installed, ignore=shutil.ignore_patterns("__pycache__"))
    (installed / "given" / "__pycache__").mkdir()
    started = Workbook(tmp_path / "mine").start(replace(lesson, folder=installed))
    assert started.is_new
    names = sorted(path.name for path in started.file.parent.iterdir())
    assert names == ["deploy.yaml", "scheduler.py"]
