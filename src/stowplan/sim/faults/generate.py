"""Draw a script from a seed: a small cluster, mixed pods, and faults of all kinds."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from stowplan.sim.faults.script import Script, Step

_KINDS = ("plain",) * 6 + (
    "spread",
    "spread",
    "apart",
    "apart",
    "port",
    "ssd",
    "tolerant",
    "volume",
)
_REQUESTS = ("bind", "bind", "bind", "status", "events", "list", "lease", "read", "any")
_ANSWERS = ("409", "429", "429+1", "429+3", "500", "503", "504")
_BREAKS = ("reset", "lost", "unanswered", "unheard", "late", "delay", "half", "garbage")
_WATCH = ("garbage", "half", "silent", "silent", "end", "gone", "twice", "500", "410", "reset")
_LISTS = ("stale", "twice", "410", "500", "half", "garbage", "delay")
_WATCHED = ("watch/pods", "watch/pods", "watch/nodes", "watch")
#: A write arrives or is lost within this time, so that no former leader's arrives under the next:
#: leaseDuration - renewDeadline (ARCHITECTURE.md, Leadership).
_ARRIVES_WITHIN_S = 4.5


@dataclass(frozen=True, slots=True)
class Form:
    """How much happens in a script. Counts are the least and the most."""

    nodes: tuple[int, int]
    pods: tuple[int, int]
    faults: tuple[int, int]
    changes: tuple[int, int]
    #: Everything begins within this time.
    end_s: float


#: Most defects need one or two faults at a bad moment, so many short scripts find more than a few
#: long ones.
SHORT = Form(nodes=(1, 4), pods=(2, 6), faults=(1, 3), changes=(0, 2), end_s=10.0)
LONG = Form(nodes=(3, 8), pods=(10, 40), faults=(1, 16), changes=(0, 10), end_s=45.0)


def generate(seed: int, form: Form = SHORT) -> Script:
    """The script of a seed."""
    return _Generator(seed, form).script()


class _Generator:
    def __init__(self, seed: int, form: Form) -> None:
        self._seed = seed
        self._form = form
        self._rng = Random(f"script {seed}")
        self._steps: list[Step] = []
        self._replicas = self._rng.choice((1, 1, 2))
        #: Without faults of processes and lease, requests may arrive however late.
        self._is_patient = self._replicas == 1 and self._rng.random() < 0.3
        self._pods: list[dict[str, Any]] = []
        self._nodes: list[str] = []
        self._foreign = 0
        self._has_devices = self._rng.random() < 0.2
        self._kinds = _KINDS + ("device",) * (8 * self._has_devices)

    def script(self) -> Script:
        rng, form = self._rng, self._form
        for number in range(rng.randint(*form.nodes)):
            self._add_node(number)
        fewest, most = form.pods
        for number in range(fewest + int((most - fewest + 1) * rng.random() ** 2)):
            self._create_pod(number)
        for _ in range(rng.randint(*form.faults)):
            self._disturb()
        for _ in range(rng.randint(*form.changes)):
            self._change_cluster()
        self._steps.sort(key=lambda step: step.at)
        verify, annotate = int(rng.random() < 0.1), rng.random() < 0.1
        return Script(self._seed, self._replicas, tuple(self._steps), verify, annotate)

    def _add(self, do: str, at: float | None = None, **args: Any) -> None:
        when = self._rng.uniform(0.5, self._form.end_s) if at is None else at
        self._steps.append(Step(round(when, 3), do, args))

    def _add_node(self, number: int) -> None:
        rng = self._rng
        args: dict[str, Any] = {
            "name": f"n{number}",
            "cpu": rng.choice((1000, 2000, 4000)),
            "zone": f"z{number % rng.choice((2, 3))}",
        }
        if rng.random() < 0.4:
            args["labels"] = {"disk": "ssd"}
        if rng.random() < 0.1:
            args["taint"] = "dedicated"
        if self._has_devices:
            args["devices"] = rng.choice((0, 1, 2, 3))
        self._nodes.append(args["name"])
        self._add("add-node", 0.0 if rng.random() < 0.9 else None, **args)

    def _create_pod(self, number: int) -> None:
        rng = self._rng
        pod: dict[str, Any] = {
            "name": f"p{number}",
            "namespace": rng.choice("aab"),
            "kind": rng.choice(self._kinds),
            "cpu": rng.choice((50, 100, 300, 500, 900)),
        }
        if rng.random() < 0.25:
            pod["priority"] = rng.choice(("low", "high", "high"))
        self._pods.append(pod)
        self._add("create-pod", 0.0 if rng.random() < 0.3 else None, **pod)

    def _disturb(self) -> None:
        rng = self._rng
        replica = rng.randrange(self._replicas)
        draw = rng.random()
        if draw < 0.25 and not self._is_patient:
            what = rng.choice(("kill", "kill", "freeze", "freeze", "suspend", "stop", "jump"))
            if what == "kill":
                self._add("kill", replica=replica, restart=rng.choice((0.1, 1.0, 20.0)))
            elif what in ("freeze", "suspend"):
                self._add(what, replica=replica, seconds=rng.choice((3.0, 11.0, 18.0, 30.0)))
            elif what == "jump":
                self._add("jump", replica=replica, seconds=rng.choice((-3600.0, 40.0, 86400.0)))
            else:
                self._add("stop", replica=replica)
            return
        if draw < 0.35:
            self._add(rng.choice(("compact", "drop-watches", "restart-apiserver")))
            return
        if draw < 0.5:
            on, what = rng.choice(_WATCHED), rng.choice(_WATCH)
        elif draw < 0.58:
            on, what = rng.choice(("list", "list/pods")), rng.choice(_LISTS)
        else:
            on, what = rng.choice(_REQUESTS), rng.choice(_ANSWERS + _BREAKS)
        if self._is_patient and on in ("lease", "any"):
            on = "bind"
        args: dict[str, Any] = {"on": on, "what": what, "times": rng.choice((1, 1, 2, 5, 30))}
        if what in ("late", "delay"):
            longest = 40.0 if self._is_patient else _ARRIVES_WITHIN_S
            args["seconds"] = round(rng.uniform(0.05, longest), 3)
        elif what == "stale":
            args["seconds"] = rng.choice((1, 3, 10, 30))
        if self._replicas > 1 and rng.random() < 0.5:
            args["replica"] = replica
        self._add("fault", **args, **{"for": rng.choice((1.0, 5.0, 15.0))})

    def _change_cluster(self) -> None:
        rng = self._rng
        node, pod = rng.choice(self._nodes), rng.choice(self._pods)
        named = {"name": pod["name"], "namespace": pod["namespace"]}
        match rng.randrange(12):
            case 0:
                at = rng.uniform(1.0, self._form.end_s)
                self._add("remove-node", at, name=node)
                if rng.random() < 0.7:
                    again = at + rng.choice((0.0, 0.01, 1.0, 10.0))
                    self._add("add-node", again, name=node, cpu=rng.choice((500, 1000)), zone="z0")
            case 1:
                self._add("resize-node", name=node, cpu=rng.choice((200, 600, 3000)))
            case 2:
                labels = {
                    rng.choice(("disk", "topology.kubernetes.io/zone")): rng.choice(
                        ["z0", "z1", "hdd"]
                    )
                }
                self._add("relabel-node", name=node, labels=labels)
            case 3:
                self._add("cordon-node", name=node, on=rng.random() < 0.7)
            case 4 | 5:
                self._add("delete-pod", **named, now=rng.random() < 0.5)
            case 6 | 7:
                self._add("namesake", **{**pod, "cpu": rng.choice((50, 300, 900))})
            case 8:
                self._add("evict-pod", **named)
            case 9:
                self._add("delete-namespace", name="b")
            case 10:
                self._add("bind-pod", **named, node=node)
            case 11:
                self._add_foreign_pod(node)

    def _add_foreign_pod(self, node: str) -> None:
        """A pod that is put on a node by its creator, or by another scheduler a while later."""
        rng = self._rng
        self._foreign += 1
        pod = {"name": f"f{self._foreign}", "namespace": rng.choice("ab")}
        at, cpu = rng.uniform(0.5, self._form.end_s), rng.choice((100, 500, 900))
        if rng.random() < 0.5:
            self._add("create-pod", at, **pod, cpu=cpu, node=node)
        else:
            self._add("create-pod", at, **pod, cpu=cpu, scheduler="other")
            self._add("bind-pod", at + rng.choice((0.01, 0.1, 1.0)), **pod, node=node)
