"""docs/extender-algorithms.md: its configurations load, and nothing that there is is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stowplan.errors import ConfigError
from stowplan.extender.algorithms import gauges
from stowplan.extender.configuration import SHIPPED, load
from stowplan.extender.loggers import ours_for
from stowplan.extender.metrics import PREFIX

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "extender-algorithms.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("text", EXAMPLES)
async def test_every_configuration_loads(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text, encoding="utf-8")
    configured = load(file)
    assert all(ours_for(name) for name in configured.loggers)


def test_there_are_configurations() -> None:
    assert len(EXAMPLES) == 4


def test_every_tag_is_told() -> None:
    pages = PAGE + (DOCS / "extender-data.md").read_text(encoding="utf-8")
    assert [name for name in SHIPPED if f"!{name}" not in pages] == []


def test_every_gauge_is_told() -> None:
    names = [*gauges._GAUGES, *gauges._COUNTERS]
    assert [name for name in names if f"`{PREFIX}{name}`" not in PAGE] == []


def test_the_mistake_is_told_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written = ["loggers: {}", "", "algorithm: !Fit", "  max_node_score: lots", "  data_provider: x"]
    Path("config.yaml").write_text("\n".join(written), encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load(Path("config.yaml"))
    assert f"  Error: {raised.value}\n" in PAGE
