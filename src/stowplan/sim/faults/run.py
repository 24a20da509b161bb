"""Run one script: a cluster, its schedulers, the steps, then quiet, then the checks."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random

from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.kinds import (
    EVENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
)
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.volume_controller import VolumeControllerOptions
from stowplan.errors import ConfigError
from stowplan.sim.faults.checks import activity, check_end, check_history
from stowplan.sim.faults.network import FAULTS, REQUESTS, Network, Rule
from stowplan.sim.faults.replica import Decided, Replica
from stowplan.sim.faults.script import Script, Step
from stowplan.sim.faults.seeded_loop import SeededLoop
from stowplan.sim.faults.world import World

#: Kinds whose history is checked: pods and nodes first.
RECORDED = (
    PODS, NODES, EVENTS, NAMESPACES,
    PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES,
    RESOURCE_CLAIMS, RESOURCE_SLICES,
)  # fmt: skip
#: Steps that others than schedulers take.
STEPS = (
    "add-node", "remove-node", "resize-node", "relabel-node", "cordon-node",
    "create-pod", "bind-pod", "delete-pod", "namesake", "evict-pod", "delete-namespace",
    "compact", "drop-watches", "restart-apiserver",
)  # fmt: skip
#: After the last fault everything must be over within so many virtual seconds: a watch that fell
#: silent is noticed after 75 s, a lease runs out after 15 s.
_QUIET_WITHIN_S = 200.0
_CALM_S = 3.0
_KEPT_CHANGES = 100_000


@dataclass(slots=True)
class Result:
    """What a run found, and what happened in it."""

    script: Script
    findings: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    virtual_s: float = 0.0
    binds: int = 0

    @property
    def digest(self) -> str:
        return sha256("\n".join(self.trace).encode()).hexdigest()


class _Breakages(logging.Handler):
    """Collects what schedulers log of defects: exceptions that they caught, wrong decisions."""

    def __init__(self, findings: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._findings = findings

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.name == "stowplan.scheduler.self_check":
            self._findings.append(f"logged: {self.format(record)}")


def run_script(script: Script) -> Result:
    """Run it to its end; the same script gives the same result, byte by byte."""
    result = Result(script)
    random.seed(script.seed)
    log = logging.getLogger("stowplan")
    handler, before = _Breakages(result.findings), (log.propagate, log.level)
    log.addHandler(handler)
    log.propagate = False
    log.setLevel(logging.ERROR)
    # A collection closes generators, at a moment that depends on the runs before.
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=lambda: SeededLoop(script.seed)) as runner:
            runner.run(_Run(script, result).run())
    finally:
        gc.enable()
        log.removeHandler(handler)
        log.propagate = before[0]
        log.setLevel(before[1])
    return result


class _Run:
    def __init__(self, script: Script, result: Result) -> None:
        self._script = script
        self._result = result

    async def run(self) -> None:
        script, result = self._script, self._result
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SeededLoop)
        cluster = EmbeddedCluster(
            history_size=_KEPT_CHANGES,
            kubelet=KubeletOptions(),
            clock=loop.clock,
            rng=Random(script.seed),
            volumes=VolumeControllerOptions(),
            device_claims=True,
        )
        network = Network(cluster, loop.clock, Random(f"{script.seed}/network"))
        result.trace = network.trace
        recorder = cluster.store.subscribe(*RECORDED)
        world = World(network)
        cluster.start_controllers()
        decided: list[Decided] = []
        replicas = [
            Replica(
                number,
                network,
                loop,
                script.seed,
                script.verify,
                script.annotate,
                decided,
                result.findings,
            )
            for number in range(script.replicas)
        ]
        for replica in replicas:
            replica.start()
        try:
            await self._play(network, world, replicas)
            await _quiet(network, replicas)
            changes = recorder.take()
            result.findings += network.findings
            result.findings += check_history(changes, decided, world.placed)
            result.findings += check_end(network, replicas, world.placed)
            result.binds = len(decided)
        finally:
            result.virtual_s = network.now()
            for replica in replicas:
                replica.kill(float("inf"))
            await cluster.stop_controllers()

    async def _play(self, network: Network, world: World, replicas: list[Replica]) -> None:
        """Carry out the steps at their times; return when the last fault is over."""
        end = 0.0
        for step in self._script.steps:
            if step.at > network.now():
                await asyncio.sleep(step.at - network.now())
            end = max(end, self._do(step, network, world, replicas))
        if end > network.now():
            await asyncio.sleep(end - network.now())
        network.rules.clear()
        network.note("faults are over")

    def _do(self, step: Step, network: Network, world: World, replicas: list[Replica]) -> float:
        """Carry out a step, and return when its consequences are over."""
        network.note(f"step {step.line()}")
        args = dict(step.args)
        try:
            match step.do:
                case "fault":
                    until = network.now() + float(args.pop("for"))
                    rule = Rule(until=until, **args)
                    _check_rule(rule, step)
                    network.rules.append(rule)
                    return until + (rule.seconds if rule.what in ("late", "delay") else 0.0)
                case "kill":
                    restart_s = float(args.get("restart", 1.0))
                    replicas[args["replica"]].kill(restart_s)
                    return network.now() + restart_s
                case "stop":
                    replicas[args["replica"]].stop()
                case "freeze":
                    replicas[args["replica"]].freeze(args["seconds"])
                    return network.now() + float(args["seconds"])
                case "suspend":
                    replicas[args["replica"]].suspend(args["seconds"])
                    return network.now() + float(args["seconds"])
                case "jump":
                    replicas[args["replica"]].clock.jumped_s += args["seconds"]
                case "nothing":
                    pass
                case verb if verb in STEPS:
                    getattr(world, verb.replace("-", "_"))(**args)
                case verb:
                    raise ConfigError(f"no such step: {verb}", where=step.line())
        except (TypeError, KeyError, IndexError) as problem:
            raise ConfigError(f"{problem}", where=step.line()) from None
        return network.now()


def _check_rule(rule: Rule, step: Step) -> None:
    on = str(rule.on).partition("/")[0]
    for given, name, allowed in ((on, "on", REQUESTS), (rule.what, "what", sorted(FAULTS))):
        if given not in allowed:
            raise ConfigError(
                f"`{name}`: {given!r:.40} is none of {', '.join(allowed)}", where=step.line()
            )


async def _quiet(network: Network, replicas: list[Replica]) -> None:
    """Wait until nothing more happens, or until it ought not to."""
    began = calm_since = network.now()
    seen = -1
    while network.now() - began < _QUIET_WITHIN_S:
        version = _version(network)
        busy = network.cluster.has_work or activity(network, replicas)
        if busy or version != seen:
            calm_since, seen = network.now(), version
        if network.now() - calm_since >= _CALM_S:
            return
        await asyncio.sleep(1.0)


def _version(network: Network) -> int:
    """The newest version of anything that scheduling depends on."""
    store = network.cluster.store
    return max(
        (record.version for kind in RECORDED[:2] for record in store.records(kind)), default=0
    )
