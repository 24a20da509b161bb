"""Workloads: kube-scheduler's scheduler_perf files, read unchanged and played on any cluster.

`load` reads a file into `model`'s operations, `play` runs them against whatever implements its
`Cluster` protocol: the benchmark's client of a real API server, a simulator, a test's dictionary.
Nothing here opens a socket, starts a process or reads a clock of its own.
"""
