"""The command that the user typed to start us, for texts that name the next command to type.

After `make run` there is no `stowplan` on the PATH, only `.venv/bin/stowplan`. A text that says
`stowplan learn` would then lead to "command not found".
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

from stowplan.cli.main import COMMANDS

_COMMAND: Final = re.compile(rf"(?<![\w/.-])stowplan(?= (?:{'|'.join(COMMANDS)})\b)")


def own_command() -> str:
    """Return what works here: `stowplan`, `.venv/bin/stowplan`, `kubectl stowplan`, ..."""
    program = Path(sys.argv[0])
    if program.name == "__main__.py" and program.parent.name == "stowplan":
        return f"{_shortest(sys.executable)} -m stowplan"
    if program.name == "kubectl-stowplan":
        return "kubectl stowplan"
    if program.name.startswith("stowplan"):
        return _shortest(sys.argv[0])
    return "stowplan"  # called from another program


def typed(text: str) -> str:
    """Replace each `stowplan COMMAND` in a text by the form that works here."""
    return _COMMAND.sub(lambda _: own_command(), text)


def _shortest(program: str) -> str:
    path = Path(program)
    found = shutil.which(path.name)
    if found is not None and Path(found).absolute() == path.absolute():
        return path.name
    try:
        path = path.absolute().relative_to(Path.cwd())
    except ValueError:
        return shlex.quote(program)
    # The shell would search the PATH for a bare name.
    return shlex.quote(str(path) if len(path.parts) > 1 else f"./{path}")
