"""Simulation: virtual time, scenarios, traces and a Gymnasium environment.

`stowplan.scenarios`, `stowplan.traces` and `stowplan.gym` are the public import paths.
"""
