"""How a benchmark that is started by `python -m` ends: errors in one line, Ctrl-C with 130."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from stowplan.errors import StowplanError
from stowplan.present.pipes import EXIT_PIPE_CLOSED, is_stdout_closed, watch_stdout

EXIT_INTERRUPTED: Final = 130  # 128 + SIGINT


def as_command(main: Callable[[], int | None], kept: str) -> int:
    """Run `main` and return its exit code; on Ctrl-C say what was `kept`."""
    watch_stdout()
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
        return EXIT_INTERRUPTED
