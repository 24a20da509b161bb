"""Runs a command that dies with the process that asked for it: ``tether.py PARENT COMMAND...``

Started by processes.py as a plain script, never imported. It asks the kernel to kill it when its
parent dies and then becomes the command, under the same process id. Doing this in a process of its
own, instead of in a `preexec_fn`, keeps Python code out of the moment between fork and exec, where
a parent with threads can deadlock. Must stay importable by nothing and depend on nothing: it runs
with ``-I -S``.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        # The request survives exec. Other systems have no equivalent; there, stop() does the work.
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(f"the process that started {command[0]} is gone already")
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
