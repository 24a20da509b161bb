"""Sweeps: configurations x workloads x seeds, simulated on all cores or on a Dask cluster.

`document` reads the file, `parameters` what varies in it, `tasks` defines tasks, `playing` runs
one, `pool` and `dask_cluster` run many, `folder` stores finished ones, `table` and `page` show
them. Results do not depend on the number of processes.
"""

from stowplan.sim.sweep.document import read_sweep
from stowplan.sim.sweep.running import run_sweep

__all__ = ["read_sweep", "run_sweep"]
