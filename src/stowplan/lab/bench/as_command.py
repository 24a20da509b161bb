"""How a benchmark that is started by `python -m` ends: errors in one line, Ctrl-C with 130,
SIGTERM with 143."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from stowplan.errors import StowplanError
from stowplan.present.pipes import EXIT_PIPE_CLOSED, is_stdout_closed, watch_stdout
from stowplan.present.sigterm import EXIT_TERMINATED, sigterm_as_ctrl_c

EXIT_INTERRUPTED: Final = 130  # 128 + SIGINT


def as_command(main: Callable[[], int | None], kept: str) -> int:
    """Run `main` and return its exit code; on Ctrl-C say what was `kept`."""
    watch_stdout()
    with sigterm_as_ctrl_c() as termination:
        try:
            code = main() or 0
            sys.stdout.flush()
            return code
        except StowplanError as problem:
            print(f"Error: {problem}", file=sys.stderr)
            return problem.exit_code
        except KeyboardInterrupt:
            if is_stdout_closed():
                return EXIT_PIPE_CLOSED
            print(f"\ninterrupted; {kept}", file=sys.stderr)
            return EXIT_TERMINATED if termination.has_come else EXIT_INTERRUPTED
