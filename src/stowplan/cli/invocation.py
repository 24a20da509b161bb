"""How the person at the keyboard calls us, for texts that name the next command to type.

Who came by `make run` has no `stowplan` on the PATH but `.venv/bin/stowplan`; a text that says
`stowplan learn` would send them into "command not found".
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
    """`stowplan`, `.venv/bin/stowplan`, `python -m stowplan`: whatever works from here."""
    program = Path(sys.argv[0])
    if program.name == "__main__.py" and program.parent.name == "stowplan":
        return f"{_shortest(sys.executable)} -m stowplan"
    if program.name.startswith("stowplan"):
        return _shortest(sys.argv[0])
    return "stowplan"  # called from a program of somebody else's


def typed(text: str) -> str:
    """A text that names commands of ours, with each as it has to be typed here."""
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
    # A bare name would be looked for on the PATH.
    return shlex.quote(str(path) if len(path.parts) > 1 else f"./{path}")
