"""Fixtures of several files of tests here."""

from __future__ import annotations

from pathlib import Path

import pytest

from stowplan.extender.configuration import Configured, load

from .configuration_kit import Load


@pytest.fixture
def load_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    monkeypatch.chdir(tmp_path)

    def load_it(text: str) -> Configured:
        Path("config.yaml").write_text(text, encoding="utf-8")
        return load(Path("config.yaml"))

    return load_it
