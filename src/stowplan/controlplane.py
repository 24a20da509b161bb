"""Public path of `stowplan.lab.controlplane`: ``python -m stowplan.controlplane build``."""

import sys

from stowplan.lab import controlplane as _package
from stowplan.lab.controlplane import BinaryMissing, ControlPlane, ControlPlaneError, find_binary

__all__ = ["BinaryMissing", "ControlPlane", "ControlPlaneError", "find_binary"]
__path__ = _package.__path__

if __name__ == "__main__":
    from stowplan.lab.controlplane.__main__ import main

    sys.exit(main())
