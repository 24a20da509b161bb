"""End-to-end benchmark on the real control plane: Stowplan, kube-scheduler and bare bindings.

See `stowplan bench --help` for its use. `plan` says what is measured (workloads of scheduler_perf
files, or the sets of `targets`), `session` lets contestants take turns, `run` measures one of them
on a fresh control plane (`live` plays the workload, `observe` is what it sees with), `results`
keeps what was measured, `figures` makes medians and ratios of it, `terminal`, `document`, `page`
and `report` show them. `contestants` starts each scheduler; `raw` binds without deciding.

`decisions` measures the pure cycle, `simulation` virtual simulations, `waiting` what waiting pods
cost, `soak` a long churn, `extender` the extender service beside Flask and gunicorn, and `sweeps`
what more processes give.
"""
