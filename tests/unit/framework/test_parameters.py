"""Methods with the wrong parameters are refused when the plugin is registered."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stowplan import Plugin
from stowplan.errors import ConfigError
from stowplan.framework.misspelt import METHODS
from stowplan.framework.parameters import PARAMETERS, wrong_parameters
from stowplan.framework.registry import Registry
from stowplan.plugins.registry import IN_TREE
from stowplan.testing import check_plugin


def plugin(method: str, function: Any) -> type[Plugin]:
    members: dict[str, Any] = {"name": "Odd", "__module__": __name__}
    return type("Odd", (Plugin,), members | {"permit": lambda *_: None, method: function})


@pytest.mark.parametrize(
    ("method", "function", "wanted"),
    [
        ("filter", lambda pod, node: True, r"\(self, pod, node\) or \(self, pod, node, cycle\)"),
        ("score", lambda pod, node, cycle: 1, r"\(self, pod, node\) or"),
        ("filter_columns", lambda self, cycle, rows, out: None, "cycle, rows, out, overlay"),
        ("score_columns", lambda self, cycle, out: None, r"\(self, cycle, rows, out\)"),
        ("sign", lambda self: 1, r"\(self, info\)"),
        ("events", lambda self, cycle: None, r"\(self\)"),
        ("filter", staticmethod(lambda self, pod, node, cycle: True), r"\(pod, node\) or"),
    ],
)
def test_wrong_parameters_are_refused(method: str, function: Any, wanted: str) -> None:
    odd = plugin(method, function)
    with pytest.raises(
        ConfigError, match=rf"^\S+test_parameters\.py:\d+: Odd.{method} takes .*{wanted}"
    ):
        Registry([odd])
    [found] = check_plugin(odd, only=["contract"])
    assert f"Odd.{method} takes" in found.message


@pytest.mark.parametrize(
    ("method", "function"),
    [
        ("filter", lambda self, pod, node: True),
        ("filter", lambda self, pod, node, cycle: True),
        ("filter", lambda self, pod, node, cycle=None, limit=3: True),
        ("filter", lambda *arguments, **options: True),
        ("filter", staticmethod(lambda pod, node: True)),
        ("score", lambda this, a_pod, a_node: 1),
        ("events", classmethod(lambda cls: None)),
    ],
)
def test_other_parameters_are_left_alone(method: str, function: Any) -> None:
    Registry([plugin(method, function)])


def test_every_method_is_compared() -> None:
    assert set(METHODS) - set(PARAMETERS) == {"post_filter_steps"}
    assert [list(wrong_parameters(each)) for each in IN_TREE] == [[]] * len(IN_TREE)


@pytest.mark.parametrize("command", [["run"], ["simulate", "steps.yaml"]])
def test_a_function_with_one_parameter_is_one_line(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "twoargs.py").write_text(
        "import stowplan\n\n@stowplan.filter\ndef twoargs(node):\n    return True\n"
    )
    (tmp_path / "steps.yaml").write_text("steps:\n- create:\n    nodes:\n    - {name: one}\n")
    ended = subprocess.run(
        [sys.executable, "-m", "stowplan", *command, "--plugin", "twoargs.py:twoargs"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=60,
    )
    assert ended.returncode == 2
    [line] = ended.stderr.strip().splitlines()
    assert "twoargs.py:3: filter functions take (pod, node)" in line
