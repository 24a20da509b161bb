"""Measurement: the real control plane, built and started on loopback, and the benchmarks on it."""
