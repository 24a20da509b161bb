"""Chaos on a real control plane: two schedulers, full nodes, a seeded schedule of faults, an audit.

    python -m tools.chaos --seed 1 --minutes 34
    python -m tools.chaos --seed 1 --minutes 34 --scheduler kube-scheduler

Exit status 0: nothing was found. 1: something was; logs, schedule, etcd's data and the report stay
in the directory that is printed. docs/chaos.md says what each fault is.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from stowplan.audit import APISERVER_FLAGS, AuditTrail
from stowplan.lab.controlplane import BinaryMissing, ControlPlane
from stowplan.lab.controlplane.processes import ControlPlaneError
from stowplan.lab.faults import FaultProxy
from stowplan.present.status_line import PLAIN_INTERVAL_S, StatusLine, format_elapsed
from tools.chaos import objects
from tools.chaos.api import Api
from tools.chaos.game import Game
from tools.chaos.load import Load
from tools.chaos.observer import Observer
from tools.chaos.plan import Kind, make_plan, write_plan
from tools.chaos.replicas import SCHEDULERS, Replicas
from tools.chaos.report import document, table
from tools.chaos.verdict import Verdict, audit, judge


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.chaos", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--seed", type=int, default=1, help="of the schedule of faults; 1")
    parser.add_argument("--minutes", type=float, default=3.0, help="how long faults happen; 3")
    parser.add_argument("--until", type=float, help="stop so many minutes into the schedule")
    parser.add_argument("--nodes", type=int, default=500, help="nodes of the cluster; 500")
    parser.add_argument("--rate", type=float, default=12.0, help="new pods a second; 12")
    parser.add_argument(
        "--scheduler", choices=SCHEDULERS, default="stowplan", help="which one to test; stowplan"
    )
    parser.add_argument("--source", type=Path, help="run Stowplan from this src directory")
    kinds = ", ".join(kind.name.lower() for kind in Kind)
    parser.add_argument("--only", default="", help=f"kinds of faults, with commas: {kinds}")
    parser.add_argument("--keep", type=Path, help="keep everything here, whatever is found")
    given = parser.parse_args()
    try:
        only = [Kind[name.upper()] for name in given.only.split(",") if name]
    except KeyError as unknown:
        parser.error(f"--only: there is no fault {unknown.args[0].lower()}; there are {kinds}")
    if given.minutes <= 0 or given.nodes < 10 or given.rate <= 0:
        parser.error("--minutes and --rate must be above 0, --nodes at least 10")
    directory = given.keep or Path(tempfile.mkdtemp(prefix="stowplan-chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    try:
        verdict = _run(given, only, directory)
    except (BinaryMissing, ControlPlaneError, TimeoutError) as problem:
        print(f"chaos: {problem}\nEverything is kept in {directory}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"interrupted; everything is kept in {directory}", file=sys.stderr)
        return 130
    if verdict.findings:
        print(f"{len(verdict.findings)} findings; everything is kept in {directory}")
        return 1
    if given.keep is None:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


def _run(given: argparse.Namespace, only: list[Kind], directory: Path) -> Verdict:
    plan = make_plan(given.seed, given.minutes, only)
    if given.until is not None:
        plan = [step for step in plan if step.at_s <= given.until * 60]
    schedule = directory / "schedule.jsonl"
    write_plan(plan, given.seed, schedule)
    began = time.monotonic()
    line = StatusLine(sys.stdout, plain_interval_s=PLAIN_INTERVAL_S, clock=time.monotonic)

    def say(text: str) -> None:
        line.say(f"[{format_elapsed(time.monotonic() - began)}] {text}")

    say(f"seed {given.seed}: {len(plan)} faults in {given.minutes:g} minutes, in {schedule}")
    logs = directory / "schedulers"
    logs.mkdir(exist_ok=True)
    with ExitStack() as stack:
        trail = AuditTrail(directory.resolve(), bindings_only=True)
        flags = (*APISERVER_FLAGS, "--event-ttl=6h", *trail.flags)
        plane = stack.enter_context(
            ControlPlane(directory=directory / "controlplane", apiserver_flags=flags)
        )
        proxies = [
            stack.enter_context(
                FaultProxy(
                    plane.url,
                    token=plane.admin_token,
                    ca_file=plane.certificate_authority,
                    seed=given.seed + number,
                )
            )
            for number in range(2)
        ]
        replicas = Replicas(plane, proxies, given.scheduler, logs, given.source)
        stack.callback(replicas.stop)
        observer = Observer(Api(plane))
        maker = objects.PodMaker(given.seed)
        room = given.nodes * objects.NODE_MILLI
        load = Load(lambda: Api(plane), observer, maker, given.rate, room)
        stack.callback(load.stop)
        stack.callback(observer.stop)
        game = Game(plane, replicas, observer, load, given.nodes, say)

        def progress(done: int) -> None:
            line.update(
                lambda: (
                    f"[{format_elapsed(time.monotonic() - began)}] {done}/{len(plan)} faults,"
                    f" {len(observer.pods)} pods, {len(observer.binds)} binds"
                )
            )

        outcome = game.play(plan, progress)
        say("auditing every revision in etcd")
        report, announcements = audit(plane.etcd_url, trail.path, directory / "history.jsonl")
        verdict = judge(report, outcome.pending, announcements.is_overdue)
        verdict.findings += outcome.problems
        if verdict.findings:
            for kind in ("pods", "nodes", "events"):
                dump = plane.api.raw("GET", f"/api/v1/{kind}")
                (directory / f"{kind}.json").write_text(dump)
    text = replicas.logs_text()
    if "Traceback (most recent call last)" in text or "panic:" in text:
        verdict.findings.append(f"a scheduler's log has a traceback: grep -l Traceback {logs}/*")
    settings = {
        "scheduler": given.scheduler,
        "seed": given.seed,
        "minutes": given.minutes,
        "nodes": given.nodes,
        "pods": len(observer.pods),
        "elapsed_s": round(time.monotonic() - began),
        "scheduler_starts": sum(replica.starts for replica in replicas.all),
        "ended_by_themselves": replicas.ended_by_themselves,
    }
    figures = document(settings, outcome, observer.binds, verdict)
    (directory / "report.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(table(figures))
    return verdict


if __name__ == "__main__":
    sys.exit(main())
