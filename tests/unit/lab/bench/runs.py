"""Runs and results as the benchmark would have measured them."""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan.lab.bench.figures import KUBE, RAW, RAW_EVENTS, STOWPLAN, Run
from stowplan.lab.bench.results import About, Measured, RunResult, Setup

BASIC = "5000Nodes_10000Pods_QueueingHintsEnabled"


def run(contestant: str, pods_per_s: float, round_number: int = 1, **figures: Any) -> Run:
    usual = Run(
        contestant=contestant,
        round=round_number,
        pods=3000,
        pods_per_s=pods_per_s,
        took_s=3000 / pods_per_s if pods_per_s else 0.0,
        created_per_s=1200.0,
        latency_p50_s=0.02,
        latency_p99_s=0.3,
        cpu_per_1000=0.8,
        server_cpu_per_1000=2.0,
        peak_rss_mib=110.0,
        first_bind_s=0.5,
        events=3000,
        events_at_last_bind=400,
        last_event_s=2.5,
        event_lag_p99_s=3.0,
        others_cores=0.1,
        binds_over_time=(400, 500, 300),
    )
    return msgspec.structs.replace(usual, **figures)


def setup(test: str = "SchedulingBasic", name: str = "5Nodes", **fields: Any) -> Setup:
    usual = Setup(file="misc", test=test, name=name, nodes=5, pods=15, measured=10)
    return msgspec.structs.replace(usual, **fields)


def result(
    one: Run, of: Setup | None = None, *, fingerprint: str = "f1", commit: str = "abc"
) -> RunResult:
    about = About(
        when="2026-11-15T10:00:00+00:00",
        command=("stowplan", "bench", "misc"),
        commit=commit,
        fingerprint=fingerprint,
        kubernetes="v1.36.3",
        python="3.11.9",
        machine="2 cores, some processor",
        cpus=2,
    )
    return RunResult(setup=of or setup(), about=about, run=one)


def measured(**rates: float) -> Measured:
    """SchedulingBasic as in the headline set, in three rounds."""
    names = {"stowplan": STOWPLAN, "kube": KUBE, "raw": RAW, "events": RAW_EVENTS}
    one = setup(name=BASIC, nodes=5000, pods=6000, measured=5000, scale=0.5, mode="backlog")
    return Measured(
        one,
        [
            result(run(names[name], rate * (1 + number / 100), number), one)
            for name, rate in rates.items()
            for number in (1, 2, 3)
        ],
    )
