"""The pages about configuration and parity say what the code does."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from stowplan.config.load import parse_config
from stowplan.config.plugin_args import PLUGIN_ARGS
from stowplan.errors import ConfigError
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import plugin_errors
from tools import parity_facts, parity_page
from tools.parity_page import (
    PAGE,
    argument_defaults,
    configuration_defaults,
    find_divergences,
    page,
)

CONFIGURATION = (PAGE.parent / "configuration.md").read_text()


def rows(text: str) -> list[list[str]]:
    """The cells of every table row below a heading row."""
    found = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in found if "---" not in row[0]]


def section(plugin: str) -> str:
    return CONFIGURATION.partition(f"\n### {plugin}\n")[2].partition("\n##")[0]


def test_the_parity_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `make docs` and commit docs/parity.md"


def test_every_field_of_the_configuration_is_explained_with_its_default() -> None:
    fields = [row[:2] for row in rows(CONFIGURATION.partition("## Plugin arguments")[0])]
    fields += [row[:2] for row in rows(CONFIGURATION.partition("## Extenders")[2])]
    expected = [[f"`{path}`", default] for path, default in configuration_defaults()]
    assert sorted(row for row in fields if row[0] != "field") == sorted(expected)


@pytest.mark.parametrize("plugin", PLUGIN_ARGS)
def test_every_argument_is_explained_with_its_default(plugin: str) -> None:
    arguments = [row[:2] for row in rows(section(plugin)) if row[0] != "argument"]
    assert arguments == [[f"`{path}`", default] for path, default in argument_defaults(plugin)]


def test_the_examples_are_good_configurations() -> None:
    examples = re.findall(r"```yaml\n(.*?)```", CONFIGURATION, re.DOTALL)
    assert len(examples) == 4
    for example in examples:
        parse_config(example, check=partial(plugin_errors, registry=in_tree_registry()))


def test_the_shown_mistakes_are_what_is_told() -> None:
    shown = re.findall(r"^Error: config\.yaml: .*$", CONFIGURATION, re.MULTILINE)
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {score: {enabled: [{name: NodeAfinity}]}}
  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: Most}}}]
"""
    with pytest.raises(ConfigError) as refused:
        parse_config(
            text,
            where="config.yaml",
            check=partial(plugin_errors, registry=in_tree_registry()),
        )
    assert sorted(f"Error: {line}" for line in str(refused.value).split("\n")) == sorted(shown)


def test_divergences_are_found_with_their_place_and_reason(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        "# DIVERGES: at the top,\n"
        "# in two lines.\n"
        "import os\n\n\n"
        "class Queue:\n"
        '    """DIVERGES: in one line."""\n\n'
        "    def flush(self):\n"
        '        """Flushes.\n\n'
        "        Something. DIVERGES: client-go waits,\n"
        "        we do not.\n\n"
        "        More.\n"
        '        """\n'
        "        # DIVERGES: the first.\n"
        "        # DIVERGES: the second.\n"
        "        return os\n"
    )
    assert [tuple(each) for each in find_divergences(tmp_path)] == [
        ("one.py", "", "At the top, in two lines."),
        ("one.py", "`Queue`", "In one line."),
        ("one.py", "`Queue.flush`", "client-go waits, we do not."),
        ("one.py", "`Queue.flush`", "The first."),
        ("one.py", "`Queue.flush`", "The second."),
    ]


def test_a_fact_without_a_reason_in_the_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    invented = parity_facts.differs("something", "because", "nowhere.py")
    monkeypatch.setattr(parity_page, "SCHEDULER", (invented,))
    with pytest.raises(AssertionError, match=r"no DIVERGES: comment in 'nowhere\.py'"):
        page()
