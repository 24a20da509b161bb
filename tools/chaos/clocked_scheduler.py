"""A Stowplan command whose wall clock is off by what a file says; `time.time` and nothing else.

    python -m tools.chaos.clocked_scheduler OFFSET_FILE run --kubeconfig=...

The file holds one float, in seconds; it is mapped, so a change takes effect at once. Clocks that
never jump on a real machine, monotonic and boot time, stay as they are.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from pathlib import Path

_FORM = struct.Struct("d")


def write_offset(file: Path, seconds: float) -> None:
    if not file.exists():
        file.write_bytes(bytes(_FORM.size))
    with file.open("r+b") as raw:
        raw.write(_FORM.pack(seconds))


def follow(file: Path) -> None:
    """Let this process's wall clock follow the file."""
    with file.open("rb") as raw:
        offset = mmap.mmap(raw.fileno(), _FORM.size, access=mmap.ACCESS_READ)
    real = time.time
    time.time = lambda: real() + _FORM.unpack_from(offset)[0]


if __name__ == "__main__":
    follow(Path(sys.argv[1]))
    from stowplan.cli.main import main

    sys.argv = ["stowplan", *sys.argv[2:]]
    main()
