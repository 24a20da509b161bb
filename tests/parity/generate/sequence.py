"""Seeded random streams: one cluster that changes step by step, asked about pods on the way.

A sequence is a configuration and the lines of `stowplan decide --stream` as `steps`. Pods to place
come from a few templates, so that whatever is kept from one decision to the next is used again
after the cluster has changed.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.parity.generate.case import Key, Scene, containers_of, key_of
from tests.parity.generate.configurations import SECOND_SCHEDULER, random_configuration
from tests.parity.generate.crowds import budgets
from tests.parity.generate.dice import NODES, Dice, Json, copied
from tests.parity.generate.pods import ANOTHER_SCHEDULER, promised, requests, standing

STEPS = 60


def sequence(seed: int | str, *, large: bool = False) -> Json:
    """A configuration and steps; the same for the same seed.

    Some are `tight`: to be answered with hardly any room for what we keep; see tight.py.
    """
    stream = _Stream(seed)
    if large:
        stream.names = [f"n{number}" for number in range(stream.dice.randint(60, 150))]
        stream.percentage = Dice(f"{seed} percentage").choice([100, 100, 30, 0])
        if stream.percentage < 100:
            # It matters where more than 100 are feasible.
            stream.names = [f"n{number}" for number in range(180)]
            stream.easy = True
    return stream.story(STEPS, pods=200 if large else 0)


def reference(key: Key) -> Json:
    """What a line's `delete` names an object by."""
    kind, namespace, name = key
    return {"kind": kind, "name": name, **({"namespace": namespace} if namespace else {})}


def _port(port: Json) -> tuple[str, int] | None:
    return (port["protocol"], port["hostPort"]) if port.get("hostPort") else None


def _waits_here(pod: Json) -> bool:
    is_ours = pod["spec"]["schedulerName"] != ANOTHER_SCHEDULER
    return is_ours and not pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending"


class _Stream(Scene):
    """A cluster as it is at a step, and the changes that make the next one of it."""

    def __init__(self, seed: int | str) -> None:
        super().__init__(seed)
        self.easy = self.dice.often(0.6)
        self.there: dict[Key, Json] = {}
        self.line: Json = {}
        self.percentage = 100

    def story(self, steps: int, *, pods: int = 0) -> Json:
        dice = self.dice
        config = random_configuration(dice, self.themes)
        config["percentageOfNodesToScore"] = self.percentage
        names = dice.sample(self.names, dice.randint(2, 6) if not pods else len(self.names) - 5)
        self.templates = [
            self.pod(easy=self.easy or dice.often(0.5), dressed=0.8) for _ in range(4)
        ]
        # So that there are pods to evict for it.
        for template in self.templates[:2]:
            template["spec"]["priority"] = 1000
        if len(config["profiles"]) > 1:
            self.templates[0]["spec"]["schedulerName"] = SECOND_SCHEDULER
        self.line = {"id": 0, "apply": [], "delete": []}
        for thing in [*self.objects(names), *(self.node(name, easy=self.easy) for name in names)]:
            self.put(thing)
        for _ in range(pods):
            self.add_pod()
        made = [self.line]
        for number in range(1, steps):
            self.line = {"id": number, "apply": [], "delete": []}
            for _ in range(dice.randint(0, 3)):
                self.change()
            if dice.often(0.75):
                self.ask()
            made.append(self.line)
        is_tight = dice.often(0.4)
        self.try_and_place(made)
        return {"config": config, "steps": made, "tight": is_tight}

    # What is there

    def put(self, thing: Json) -> None:
        key = key_of(thing)
        if not self.is_touched(key):
            if thing["kind"] == "Pod":
                self.leave_taken_ports(thing)
                if thing["spec"].get("nodeName"):
                    self.begin(thing)
            self.there[key] = thing
            self.line["apply"].append(copied(thing))

    def remove(self, key: Key) -> None:
        if not self.is_touched(key):
            del self.there[key]
            self.line["delete"].append(reference(key))

    def is_touched(self, key: Key) -> bool:
        """One line says one thing about an object."""
        return reference(key) in self.line["delete"] or key in map(key_of, self.line["apply"])

    def objects(self, names: list[str]) -> list[Json]:
        return [*super().objects(names), *budgets(self.dice, by_name=True)]

    def leave_taken_ports(self, pod: Json) -> None:
        """No two pods on a node ask for one port.

        Upstream keeps a set of a node's ports: when one of the two goes, it believes the port to be
        free, although the other still has it. We count.
        """
        where = pod["spec"].get("nodeName")
        neighbours = [
            other
            for key, other in self.there.items()
            if key[0] == "Pod" and key != key_of(pod) and other["spec"].get("nodeName") == where
        ]
        taken = {
            _port(port)
            for other in neighbours
            for container in containers_of(other)
            for port in container.get("ports", ())
        } - {None}
        if not where:
            return
        for container in containers_of(pod):
            for port in container.get("ports", ()):
                if _port(port) in taken:
                    del port["hostPort"]

    def known(self, *kinds: str) -> list[Key]:
        return [key for key in self.there if key[0] in kinds]

    def some_pod(self) -> Json | None:
        pods = self.known("Pod")
        return copied(self.there[self.dice.choice(pods)]) if pods else None

    def node_names(self) -> list[str]:
        return [name for _, _, name in self.known("Node")] or NODES[:1]

    # Changes

    def change(self) -> None:
        changes: list[tuple[Callable[[], None], int]] = [
            (self.add_pod, 8),
            (self.bind_pod, 3),
            (self.change_pod, 4),
            (self.remove_pod, 4),
            (self.add_node, 2),
            (self.change_node, 4),
            (self.remove_node, 1),
            (self.change_object, 3),
            (self.remove_object, 1),
        ]
        whats, weights = zip(*changes, strict=True)
        self.dice.choices(whats, weights)[0]()

    def add_pod(self) -> None:
        dice = self.dice
        made = self.copy_of_template() if dice.often(0.5) else self.pod(easy=True)
        made["spec"].pop("nodeName", None)
        if dice.often(0.75):
            self.put(standing(dice, made, self.place(self.node_names())))
        elif dice.often(0.6):
            self.put(promised(dice, made, self.place(self.node_names())))
        else:
            self.put(made)

    def bind_pod(self) -> None:
        waiting = [
            key
            for key in self.known("Pod")
            if not self.there[key]["spec"].get("nodeName") and not self.is_touched(key)
        ]
        if waiting:
            made = copied(self.there[self.dice.choice(waiting)])
            made["spec"]["nodeName"] = self.place(self.node_names())
            self.put(made)

    def change_pod(self) -> None:
        dice = self.dice
        made = self.some_pod()
        if made is None:
            return
        match dice.choice(["labels", "ending", "over", "resize", "promise", "size", "again"]):
            case "again":
                # Another pod of that name, as a StatefulSet makes them.
                made["metadata"]["uid"] += "-again"
            case "labels":
                made["metadata"]["labels"] = dice.pod_labels()
            case "ending":
                made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            case "over":
                made["status"]["phase"] = dice.choice(["Succeeded", "Failed", "Running"])
            case "resize" if made["spec"].get("nodeName"):
                standing(dice, made, made["spec"]["nodeName"])
            case "promise" if not made["spec"].get("nodeName"):
                made["status"]["nominatedNodeName"] = dice.choice(["", self.place(self.names)])
            case _:
                made["spec"]["containers"][0]["resources"] = {"requests": requests(dice)}
        self.put(made)

    def remove_pod(self) -> None:
        if pods := self.known("Pod"):
            self.remove(self.dice.choice(pods))

    def add_node(self) -> None:
        missing = [name for name in self.names if ("Node", "", name) not in self.there]
        if missing:
            self.put(self.node(self.dice.choice(missing), easy=self.easy))

    def change_node(self) -> None:
        name = self.dice.choice(self.node_names())
        if ("Node", "", name) not in self.there:
            return
        made = copied(self.there["Node", "", name])
        other = self.node(name, easy=self.easy)
        match self.dice.choice(["metadata", "spec", "status", "all"]):
            case "all":
                made = other
            case part:
                made[part] = other[part]
        if self.percentage < 100:
            # A node that changes its zone is found in another place by the oracle, which looks
            # anew each time, than by a scheduler. Here that would matter for all that comes.
            made["metadata"] = copied(self.there["Node", "", name])["metadata"]
        self.put(made)

    def remove_node(self) -> None:
        nodes = self.known("Node")
        if len(nodes) > 1 or self.dice.often(0.2):
            for key in nodes[:1]:
                self.remove(key)

    def change_object(self) -> None:
        if found := self.objects(self.node_names()):
            self.put(self.dice.choice(found))

    def remove_object(self) -> None:
        if others := [key for key in self.there if key[0] not in ("Node", "Pod")]:
            self.remove(self.dice.choice(others))

    # Questions

    def copy_of_template(self) -> Json:
        self.serial += 1
        made = copied(self.dice.choice(self.templates))
        made["metadata"] |= {"name": f"p{self.serial}", "uid": f"uid-p{self.serial}"}
        return made

    def try_and_place(self, steps: list[Json]) -> None:
        """Pods that are asked about go where they want to, for a while or to stay: choosing.py."""
        for step in steps:
            if "pod" in step:
                if self.dice.often(0.2):
                    step["tried"] = True
                if self.dice.often(0.2):
                    step["place"] = self.dice.randint(1, 4)

    def ask(self) -> None:
        asked = self.copy_of_template() if self.dice.often(0.75) else self.pod(easy=self.easy)
        waiting = [
            pod for pod in map(self.there.get, self.known("Pod")) if pod and _waits_here(pod)
        ]
        if waiting and self.dice.often(0.2):
            asked = copied(self.dice.choice(waiting))
        self.line["pod"] = asked
