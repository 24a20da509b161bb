"""The plugin author's API is small, documented and frozen."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import stowplan

FROZEN = [
    "ActionType",
    "ClusterEvent",
    "Code",
    "Cycle",
    "EventHint",
    "Handle",
    "Hint",
    "Node",
    "NodeView",
    "Plugin",
    "Pod",
    "PostFilterResult",
    "PreFilterResult",
    "Reads",
    "SKIP",
    "SUCCESS",
    "Status",
    "error",
    "filter",
    "pending",
    "run",
    "score",
    "unresolvable",
    "unschedulable",
    "wait",
]


def test_the_public_names_are_frozen() -> None:
    assert sorted(stowplan.__all__) == sorted(FROZEN)


@pytest.mark.parametrize("name", FROZEN)
def test_every_name_can_be_had(name: str) -> None:
    assert getattr(stowplan, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = stowplan.nonsense


def test_importing_the_package_imports_nothing_heavy() -> None:
    script = "import sys, stowplan; print([m for m in ('numpy', 'aiohttp') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_guide_uses_public_names_only() -> None:
    guide = Path(__file__).parents[2] / "docs" / "plugins.md"
    used = set(re.findall(r"stowplan\.([A-Za-z_]+)\b", guide.read_text())) - {"plugins"}
    assert used <= set(stowplan.__all__)


def test_the_guides_examples_run() -> None:
    """Every Python block of the guide is executed; ellipses and all."""
    guide = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL)
    assert len(blocks) >= 3
    space: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/plugins.md", "exec"), space)
    assert isinstance(space["on_ssd"], type)
    assert issubclass(space["on_ssd"], stowplan.Plugin)
