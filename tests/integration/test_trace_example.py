"""docs/trace-example.md says what its files say, and what comes of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "packing"
PAGE = (ROOT / "docs" / "trace-example.md").read_text()


@pytest.mark.parametrize("name", ["trace.yaml", "pack.yaml", "scenario.yaml"])
def test_files_are_on_the_page(name: str) -> None:
    text = (EXAMPLE / name).read_text()
    if text.startswith("#"):
        text = text.partition("\n")[2]
    assert f"```yaml\n{text}```" in PAGE


def test_figures_and_picture_are_those_of_the_page(tmp_path: Path) -> None:
    command = [sys.executable, "compare.py", str(tmp_path / "picture.svg")]
    done = subprocess.run(command, cwd=EXAMPLE, check=True, capture_output=True, text=True)
    assert f"$ python compare.py picture.svg\n{done.stdout}```" in PAGE
    kept = ROOT / "docs" / "images" / "spread-or-pack.svg"
    assert (tmp_path / "picture.svg").read_text() == kept.read_text()
