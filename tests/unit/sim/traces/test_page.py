"""docs/traces.md tells of every field, and what it shows can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from stowplan.sim.traces import description, generate, layout
from stowplan.sim.traces.distributions import KINDS
from stowplan.sim.traces.presets import PRESETS

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "traces.md").read_text()


def first_cells(heading: str) -> set[str]:
    """Words in backticks in the first column of the tables below a heading."""
    below = PAGE.partition(f"\n{heading}\n")[2]
    below = re.split(r"\n##", below)[0]
    cells = [line.split("|")[1] for line in below.splitlines() if line.startswith("|")]
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize(
    ("heading", "fields"),
    [
        ("## Generated traces", {*description.KNOWN, *PRESETS}),
        ("### pools", {*description.POOL}),
        ("### applications", {*description.APPLICATION}),
        ("### arrivals", {*description.ARRIVALS}),
        ("## CSV", {*layout.POD_FIELDS, *layout.NODE_FIELDS}),
        ("### Public traces", {*layout.layout_names()}),
    ],
)
def test_every_field_is_explained(heading: str, fields: set[str]) -> None:
    assert first_cells(heading) == fields


def test_layouts_are_explained() -> None:
    assert {*layout.TOP} <= first_cells("### Layouts")


def test_distributions_are_explained() -> None:
    written = first_cells("### Distributions")
    assert {name for each in written for name in re.findall(r"^{(\w+):", each)} == {*KINDS}


def test_distributions_on_the_page_can_be_drawn() -> None:
    for written in first_cells("### Distributions"):
        if "{" in written:
            field = "memory" if "Gi" in written else "duration" if "median" in written else "cpu"
            field = "duration" if "90s" in written else field
            app = {"name": "a", field: yaml.safe_load(written), "initial": 3}
            assert len(list(generate({"applications": [app]}).events())) == 3


def test_examples_of_yaml_can_be_read() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 2
    (step,) = yaml.safe_load(blocks[0])["steps"]
    trace = generate(step["workload"]["generate"])
    assert (trace.nodes, trace.pods) == (200, 5000)


def test_linked_files_are_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        if "://" not in target:
            assert (ROOT / "docs" / target).exists(), target
