"""The page Shadow: how far a configuration agrees with the scheduler that serves the cluster.

`stowplan shadow --console` passes every comparison here. Agreement is kept per ten seconds, and of
the differences the latest.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from stowplan.clock import Clock
from stowplan.replay.following import Comparison
from stowplan.replay.report import Tally, comparison_data

#: Seconds of one share of the chart, and how many are kept: six hours.
_STEP_S: Final = 10
_KEPT: Final = 2_160
_LISTED: Final = 200


class ShadowView:
    """Counts of a tally over time, and the latest differences."""

    def __init__(self, tally: Tally, clock: Clock) -> None:
        self._tally = tally
        self._clock = clock
        #: Time, decisions and those that agree, per step; steps without decisions are left out.
        self._steps: deque[list[int]] = deque(maxlen=_KEPT)
        self._differences: deque[dict[str, Any]] = deque(maxlen=_LISTED)

    @property
    def version(self) -> int:
        """Grows with every decision."""
        return self._tally.decided

    def add(self, comparison: Comparison) -> None:
        """Note a comparison that the tally has counted."""
        now = self._clock.time()
        begin = int(now) // _STEP_S * _STEP_S
        if not self._steps or self._steps[-1][0] != begin:
            self._steps.append([begin, 0, 0])
        self._steps[-1][1] += 1
        self._steps[-1][2] += comparison.agrees
        if not comparison.agrees:
            self._differences.append({**comparison_data(comparison), "time": round(now, 1)})

    def view(self) -> dict[str, Any]:
        """Everything that the page shows; the latest difference first."""
        tally = self._tally
        return {
            "decisions": tally.decided,
            "agreed": tally.agreed,
            "agreement": tally.agreement,
            "verdicts": {verdict.value: count for verdict, count in tally.verdicts.items()},
            "plugins": dict(tally.plugins.most_common()),
            "time": [begin for begin, _, _ in self._steps],
            "share": [round(agreed / decided, 6) for _, decided, agreed in self._steps],
            "differences": list(reversed(self._differences)),
        }
