"""End-to-end benchmark on the real control plane: Stowplan, kube-scheduler and bare bindings.

``python -m stowplan.bench --help`` (or ``make bench``). `contestants` says who takes part and how
each is started, `raw` is the one that sends bindings without thinking, `run` measures one
contestant on a fresh control plane, `observe` is what it sees with, `report` turns runs into
figures, `__main__` alternates the contestants.
"""
