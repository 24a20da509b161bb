"""docs/pins.md shows what the commands print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.pin_stage import STATEFUL_SET, PinStage, Player, pin_stage

GUIDE = (Path(__file__).parents[2] / "docs" / "pins.md").read_text()
BLOCKS: list[str] = re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL)
#: Which of these a move shows depends on when it looks.
PASSING = re.compile(r"(shutting down on|gone, waiting for|waiting for a node).*\n")


@pytest.fixture
def stage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[PinStage]:
    """What the page says its examples are."""
    nodes = ("worker-1", "worker-2", "worker-3")
    with pin_stage(tmp_path, capsys, monkeypatch, *nodes) as made:
        made.create_pod("web-0", "worker-1", owner=STATEFUL_SET)
        made.create_pod("web-1", owner=STATEFUL_SET)
        yield made


def test_the_page_from_top_to_bottom(stage: PinStage) -> None:
    assert len(BLOCKS) == 6
    with Player(stage):
        for block in BLOCKS:
            assert PASSING.sub("", stage.play(block)) == PASSING.sub("", block)


def test_what_a_move_waits_for_is_worded_so_in_the_code() -> None:
    source = Path(__file__).parents[2] / "src" / "stowplan" / "static" / "moving.py"
    (move,) = (block for block in BLOCKS if "stowplan move" in block)
    shown = PASSING.findall(move)
    assert len(shown) == 3
    assert all(words in source.read_text() for words in shown)


def test_every_drift_is_explained() -> None:
    source = (
        Path(__file__).parents[2] / "src" / "stowplan" / "static" / "pin_table.py"
    ).read_text()
    reasons = set(re.findall(r'Drift\("(\w+)"', source))
    explained = set(re.findall(r"^\| `(\w+)` \|", GUIDE, re.MULTILINE))
    assert reasons == explained
