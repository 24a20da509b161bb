"""Methods with nearly the name of an extension point are found, and what was meant is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import stowplan
from stowplan import Plugin
from stowplan.errors import ConfigError
from stowplan.framework.misspelt import METHODS, misspelt
from stowplan.framework.plugin import Reads
from stowplan.framework.registry import Registry
from stowplan.plugins.registry import IN_TREE
from stowplan.testing import MemoryCluster, check_plugin


def plugin(*methods: str) -> type[Plugin]:
    members: dict[str, Any] = {"name": "Odd", "__module__": __name__}
    return type("Odd", (Plugin,), members | dict.fromkeys(methods, lambda self, *args: None))


@pytest.mark.parametrize(
    ("methods", "member", "meant"),
    [
        (["scores"], "scores", "score"),
        (["score", "normalise"], "normalise", "normalize"),
        (["score", "NormalizeScore"], "NormalizeScore", "normalize"),
        (["filters"], "filters", "filter"),
        (["preFilter"], "preFilter", "pre_filter"),
        (["filter", "prescore"], "prescore", "pre_score"),
        (["score_column"], "score_column", "score_columns"),
        (["filter", "event"], "event", "events"),
        (["pemit"], "pemit", "permit"),
        *(
            (["score", wrong], wrong, meant)
            for wrong, meant in (
                ("fliter", "filter"),
                ("fitler", "filter"),
                ("socre", "score"),
                ("scroe", "score"),
                ("scorre", "score"),
                ("score_column", "score_columns"),
                ("scores_columns", "score_columns"),
                ("signature", "sign"),
                ("bidn", "bind"),
            )
        ),
    ],
)
def test_what_was_meant_is_named(methods: list[str], member: str, meant: str) -> None:
    odd = plugin(*methods)
    assert list(misspelt(odd)) == [(member, meant)]
    with pytest.raises(ConfigError, match=f"method '{member}', which is never called .*'{meant}'"):
        Registry([odd])
    with pytest.raises(ConfigError, match=f"call it '{meant}'"):
        MemoryCluster(odd)
    [found] = check_plugin(odd, only=["contract"])
    assert f"call it {meant}" in found.message


@pytest.mark.parametrize(
    "methods",
    [
        ["score", "scored"],
        ["filter", "filters"],
        ["filter_columns", "filters"],
        ["filter", "_scores", "label_of", "count", "free_rows", "sorted_nodes", "find"],
        ["filter", "store", "core", "kind", "filler", "reverse", "lesson", "assign", "design"],
        METHODS,
    ],
)
def test_methods_of_the_plugins_own_are_left_alone(methods: list[str]) -> None:
    assert list(misspelt(plugin(*methods))) == []


@pytest.mark.parametrize(
    ("member", "value", "meant"),
    [
        ("read", Reads.NODE, "reads"),
        ("verdict", (stowplan.unschedulable("no"),), "verdicts"),
        ("overlay", True, "overlays"),
        ("look_up", (), "looks_up"),
        ("args", object, "Args"),
    ],
)
def test_misspelt_attributes_are_named(member: str, value: object, meant: str) -> None:
    odd = plugin("filter")
    setattr(odd, member, value)
    with pytest.raises(ConfigError, match=f"attribute '{member}', .* call it '{meant}'"):
        Registry([odd])
    [found] = check_plugin(odd, only=["contract"])
    assert f"call it {meant}" in found.message


def test_attributes_of_the_plugins_own_are_left_alone() -> None:
    odd = plugin("filter")
    for member in ("label", "weights", "zones", "names", "threshold", "_read"):
        setattr(odd, member, 1)
    Registry([odd])


def test_our_own_plugins_have_no_such_method() -> None:
    assert [list(misspelt(each)) for each in IN_TREE] == [[]] * len(IN_TREE)


def test_stowplan_run_refuses_such_a_plugin_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "odd.py"
    file.write_text(
        "import stowplan\n\nclass Odd(stowplan.Plugin):\n    name = 'Odd'\n\n"
        "    def scores(self, pod, node):\n        return 1\n"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "stowplan", "run", "--plugin", f"{file}:Odd"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 2
    [line] = ended.stderr.strip().splitlines()
    assert "plugin 'Odd' has a method 'scores', which is never called" in line
    assert "odd.py:3" in line
    assert "Fix: call it 'score'" in line
