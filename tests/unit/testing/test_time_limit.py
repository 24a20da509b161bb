"""A plugin that does not return neither hangs the checks nor hides behind them."""

from __future__ import annotations

import signal
import time

from stowplan import NodeView, Plugin, Pod
from stowplan.testing import check_plugin
from stowplan.testing.plugin_checks import CHECKS


class Sleeper(Plugin):
    """Sleeps so long that a test of it ends only if it is stopped."""

    name = "Sleeper"

    def filter(self, pod: Pod, node: NodeView) -> bool:
        time.sleep(3600)  # for an hour
        return True


class Spinner(Plugin):
    name = "Spinner"

    def score(self, pod: Pod, node: NodeView) -> int:
        while True:
            pass


def test_no_effects_comes_first_and_the_others_do_not_wait_for_a_sleeper() -> None:
    assert next(iter(CHECKS)) == "no-effects"
    first, *others = check_plugin(Sleeper)
    assert (first.check, first.outcome) == ("no-effects", "failed")
    assert "Sleeper slept" in first.message
    assert "test_time_limit.py:" in first.message
    assert {each.outcome for each in others} == {"not applicable"}
    assert {each.message for each in others} == {"it would take too long, see no-effects"}


def test_a_check_that_takes_too_long_is_stopped_once() -> None:
    handler, (left, _) = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    first, second = check_plugin(Spinner, only=["answers", "dtypes"], limit_s=0.3)
    assert first.outcome == "failed"
    assert "Spinner took more than 0.3 s in this check and was stopped (" in first.message
    assert "test_time_limit.py:" in first.message
    assert second.message == "it would take too long, see answers"
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL)[0] <= left, "the test runner's limit is kept"


def test_a_sleeper_is_stopped_without_the_first_check() -> None:
    [found] = check_plugin(Sleeper, only=["answers"], limit_s=0.3)
    assert found.is_failure
    assert "was stopped" in found.message
