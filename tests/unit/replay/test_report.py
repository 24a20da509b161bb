"""What `replay --follow` reports of plugins that fail, and of recordings without decisions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stowplan.clock import SystemClock
from stowplan.console.shadow import ShadowView
from stowplan.replay.report import Tally
from stowplan.server.shadow_metrics import ShadowMetrics
from tests.unit.recording.test_bad_recordings import (
    END,
    HEADER,
    SYNCED,
    Run,
    node,
    packed,
    pod,
    stowplan,
    written,
)

__all__ = ["stowplan"]  # a fixture

PLUGINS = """\
import stowplan

class Boom(stowplan.Plugin):
    name = "Boom"

    def filter(self, pod, node):
        raise ValueError("went off")

class Half(stowplan.Plugin):
    name = "Half"

    def score(self, pod, node):
        return 0.5

class Unsure(stowplan.Plugin):
    name = "Unsure"

    def filter(self, pod, node):
        return stowplan.Status(stowplan.Code.ERROR, ("cannot tell",))
"""
BINDING = (pod("p", 5.0), pod("p", 5.1, "a"))


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    path = tmp_path / "broken.py"
    path.write_text(PLUGINS)
    return path


@pytest.mark.parametrize(
    ("name", "raised"),
    [
        ("Boom", 'running "Boom" filter plugin: ValueError: went off'),
        ("Half", 'plugin "Half" failed with: answered 0.5 for node a; expected an integer'),
    ],
)
@pytest.mark.parametrize("output", [(), ("-o", "json")], ids=["text", "json"])
def test_a_plugin_that_fails_is_a_verdict_and_an_error(
    tmp_path: Path, plugins: Path, stowplan: Run, name: str, raised: str, output: tuple[str, ...]
) -> None:
    path = written(tmp_path, packed(HEADER, node(), node("b"), SYNCED, *BINDING, END))
    log = tmp_path / "decisions"
    code, out, err = stowplan(
        *("replay", path, "--follow", "--plugin", f"{plugins}:{name}", "--decisions", log, *output)
    )
    assert code == 1
    assert err.startswith("Error: a plugin failed for 1 decision: ")
    assert raised in err
    assert len(err.splitlines()) == 1
    assert json.loads(log.read_text())["verdict"] == "failed"
    if output:
        report = json.loads(out)
        assert (report["decisions"], report["agreement"]) == (1, 0.0)
        assert (report["verdicts"]["failed"], report["verdicts"]["pending"]) == (1, 0)
    else:
        assert "1: a plugin failed\n" in out
        assert "no node fits" not in out


def test_a_plugin_that_answers_with_an_error_leaves_pods_pending(
    tmp_path: Path, plugins: Path, stowplan: Run
) -> None:
    """As in a replay and in a cluster: the plugin works, but cannot judge this pod."""
    path = written(tmp_path, packed(HEADER, node(), SYNCED, *BINDING, END))
    code, out, err = stowplan("replay", path, "--follow", "--plugin", f"{plugins}:Unsure")
    assert (code, err) == (0, "")
    assert "1: no node fits\n" in out
    assert 'running "Unsure" filter plugin: cannot tell' in out


def test_a_replay_names_a_plugin_that_fails_without_a_traceback(
    tmp_path: Path, plugins: Path, stowplan: Run
) -> None:
    path = written(tmp_path, packed(HEADER, node(), SYNCED, *BINDING, END))
    code, out, err = stowplan("replay", path, "--plugin", f"{plugins}:Boom")
    assert code == 1
    assert f'FAIL {path}: running "Boom" filter plugin: ValueError: went off' in out
    (line,) = err.splitlines()
    assert '"Plugin broke"' in line


def test_one_attempt_of_a_replay_is_no_plural(tmp_path: Path, stowplan: Run) -> None:
    path = written(tmp_path, packed(HEADER, node(), SYNCED, *BINDING, END))
    code, out, _ = stowplan("replay", path)
    assert code == 0
    assert " 1 attempt, 0 of them found no node;" in out


def test_without_decisions_the_agreement_is_unknown(tmp_path: Path, stowplan: Run) -> None:
    path = written(tmp_path, packed(HEADER, node(), SYNCED, END))
    code, out, err = stowplan("replay", path, "--follow", "-o", "json")
    assert (code, err) == (0, "")
    assert json.loads(out)["agreement"] is None
    tally = Tally()
    assert tally.progress == "no decision"
    assert ShadowView(tally, SystemClock()).view()["agreement"] is None
    (ratio,) = (each for each in ShadowMetrics(tally).collect() if each.name.endswith("ratio"))
    assert ratio.samples == []


def test_a_cluster_without_nodes_is_named_as_the_reason(tmp_path: Path, stowplan: Run) -> None:
    path = written(tmp_path, packed(HEADER, SYNCED, *BINDING, END))
    code, out, err = stowplan("replay", path, "--follow")
    assert (code, err) == (0, "")
    assert "   no nodes available to schedule pods\n" in out


@pytest.mark.parametrize("options", [("--seed", "3"), ("--speed", "1x"), ("--reschedule",)])
def test_options_of_a_simulation_are_rejected(
    tmp_path: Path, stowplan: Run, options: tuple[str, ...]
) -> None:
    path = written(tmp_path, packed(HEADER, node(), SYNCED, *BINDING, END))
    code, _, err = stowplan("replay", path, "--follow", *options)
    assert code == 2
    assert (
        err == f"Error: {options[0]}: cannot be combined with --follow, which does not place pods\n"
    )
