"""The command's own words: options, and how the end is told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner

from stowplan.cli import demo as command
from stowplan.demo.show import DemoResult, ShowOptions
from tests.unit.demo.test_screen import pod_view, view_of


@pytest.mark.parametrize("argv", [("--speed", "0"), ("--nodes", "0"), ("--port", "70000")])
def test_options_out_of_range(argv: tuple[str, str]) -> None:
    done = CliRunner().invoke(command.demo, argv)
    assert done.exit_code == 2
    assert f"Invalid value for '{argv[0]}'" in done.output


LESSONS = "How it does that, in sixteen short lessons: .venv/bin/stowplan learn"


@pytest.fixture(autouse=True)
def started_by_make(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [".venv/bin/stowplan", "demo"])


def final_text(capsys: pytest.CaptureFixture[str], outcome: DemoResult, *, once: bool) -> list[str]:
    command._print(outcome, ShowOptions(once=once), None)
    captured = capsys.readouterr()
    return [*captured.out.splitlines(), *captured.err.splitlines()]


def test_the_final_table(capsys: pytest.CaptureFixture[str]) -> None:
    placed = replace(
        pod_view("web-1", why="score 3, 2 of 3 nodes fit"), node="node-a1", status="Running"
    )
    huge = pod_view("huge", why="no cpu", stays_pending="is too big")
    view = replace(view_of(huge), placed=(placed,))
    assert final_text(capsys, DemoResult(view, (), was_stopped=False), once=True) == [
        "POD             NODE      STATUS    WHY",
        "default/web-1   node-a1   Running   score 3, 2 of 3 nodes fit",
        "default/huge    <none>    Pending   no cpu (expected to stay pending: it is too big)",
        "34 pods placed, 5 finished, 1 pending, as expected",
        LESSONS,
    ]


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        ("a", "Error: 1 pod stayed pending that should not: a"),
        ("ab", "Error: 2 pods stayed pending that should not: a, b"),
        ("abcdefgh", "Error: 8 pods stayed pending that should not: a, b, c, d, e, f, g, h"),
        (
            "abcdefghijk",
            "Error: 11 pods stayed pending that should not: a, b, c, d, e, f, g, h and 3 more",
        ),
    ],
)
def test_pods_that_should_not_be_pending(
    capsys: pytest.CaptureFixture[str], names: str, complaint: str
) -> None:
    outcome = DemoResult(view_of(), tuple(names), was_stopped=False)
    assert final_text(capsys, outcome, once=True)[-1] == complaint
    stopped = replace(outcome, was_stopped=True)
    farewell = ["34 pods placed, 5 finished, 0 pending", LESSONS]
    assert final_text(capsys, stopped, once=True)[-2:] == farewell
    assert final_text(capsys, stopped, once=False)[-2:] == farewell


def test_some_pending_as_expected(capsys: pytest.CaptureFixture[str]) -> None:
    view = view_of(pod_view("a"), pod_view("huge", stays_pending="is too big"))
    text = final_text(capsys, DemoResult(view, (), was_stopped=True), once=False)
    assert text[-2] == "34 pods placed, 5 finished, 2 pending, 1 as expected"
