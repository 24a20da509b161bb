"""Public path of the programs in `stowplan.lab.bench`: ``python -m stowplan.bench.decisions``."""

from stowplan.lab import bench as _package

__path__ = _package.__path__
