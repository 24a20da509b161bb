"""/metrics/slis: how often each health check was asked and failed, with kube-scheduler's names.

`health` wraps its checks here. A check that raises has failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeAlias

from stowplan.logs import get_logger

log = get_logger(__name__)

#: None for healthy, else the reason.
Check: TypeAlias = Callable[[], str | None]

_STARTED: Final = time.time()
_LAST: Final = "kubernetes_healthcheck"
_TOTAL: Final = "kubernetes_healthchecks_total"
_START: Final = "process_start_time_seconds"


class HealthSlis:
    """Results by endpoint and check."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], bool] = {}
        self._total: dict[tuple[str, str, str], int] = {}

    def observed(self, endpoint: str, name: str, check: Check) -> Check:
        """The check, whose every result is counted."""

        def run() -> str | None:
            reason = _run(check)
            self._last[name, endpoint] = reason is None
            key = (name, "success" if reason is None else "error", endpoint)
            self._total[key] = self._total.get(key, 0) + 1
            return reason

        return run

    def text(self) -> bytes:
        lines = [
            f"# HELP {_LAST} [STABLE] This metric records the result of a single healthcheck.",
            f"# TYPE {_LAST} gauge",
            *(
                f'{_LAST}{{name="{name}",type="{endpoint}"}} {int(is_well)}'
                for (name, endpoint), is_well in sorted(self._last.items())
            ),
            f"# HELP {_TOTAL} [STABLE] This metric records the results of all healthcheck.",
            f"# TYPE {_TOTAL} counter",
            *(
                f'{_TOTAL}{{name="{name}",status="{status}",type="{endpoint}"}} {count}'
                for (name, status, endpoint), count in sorted(self._total.items())
            ),
            f"# HELP {_START} [ALPHA] Start time of the process since unix epoch in seconds.",
            f"# TYPE {_START} gauge",
            f"{_START} {_STARTED:.2f}",
            "",
        ]
        return "\n".join(lines).encode()


def _run(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:
        # A check that breaks must not look healthy, nor take the server down.
        log.exception("Health check raised")
        return f"{type(error).__name__}: {error}"
