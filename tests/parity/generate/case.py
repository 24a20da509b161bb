"""Seeded random questions: a cluster, a pod and a configuration as plain JSON.

The same JSON goes to the oracle and to ourselves. Objects are as an API server would have stored
them, with its defaults filled in, and valid enough that it would have. Values are drawn from small
sets, so that things often nearly match. A case is in the form of the oracle's detailed request;
`line` makes the line of `stowplan decide` out of it.
"""

from __future__ import annotations

from typing import TypeAlias

from stowplan.clock import rfc3339
from tests.parity.generate.configurations import (
    SECOND_SCHEDULER,
    configuration,
    random_arguments,
    random_configuration,
)
from tests.parity.generate.dice import NODES, Dice, Json, copied
from tests.parity.generate.huge import near
from tests.parity.generate.nodes import node
from tests.parity.generate.pods import pod, promised, standing
from tests.parity.generate.themes import some_themes

Key: TypeAlias = tuple[str, str, str]


def random_case(seed: int | str, *, plain: bool = False) -> Json:
    """A question; the same for the same seed. A plain one has one profile with every plugin."""
    return Scene(seed).case(plain=plain)


def large_case(seed: int | str) -> Json:
    """A question about so many nodes that kube-scheduler looks at a part of them only."""
    return Scene(seed).large_case()


def line(case: Json, number: int | str = 0) -> Json:
    """The case as a line of `stowplan decide`."""
    return {
        "id": number,
        "config": case["config"],
        "objects": [*case["objects"], *case["nodes"], *case["pods"], *case["nominated"]],
        "pod": case["pod"],
    }


def key_of(thing: Json) -> Key:
    """Kind, namespace and name."""
    metadata = thing["metadata"]
    return thing["kind"], metadata.get("namespace", ""), metadata["name"]


def containers_of(pod: Json) -> list[Json]:
    return [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())]


def part_ports(pods: list[Json]) -> None:
    """Leave a host port of a node to the first of the pods that want it.

    Upstream keeps a set of a node's ports: when one of two pods with the same port is evicted, it
    believes the port to be free, although the other still has it. We count.
    """
    taken: set[tuple[str, int]] = set()
    for made in pods:
        for container in containers_of(made):
            for port in container.get("ports", ()):
                place = (made["spec"]["nodeName"], port.get("hostPort", 0))
                if place in taken:
                    port.pop("hostPort", None)
                elif port.get("hostPort"):
                    taken.add(place)


class Scene:
    """Draws the parts of one case; `serial` numbers the pods."""

    def __init__(self, seed: int | str) -> None:
        self.dice = Dice(seed)
        self.themes = some_themes(self.dice)
        self.serial = 0
        #: When its last pod began, in seconds; pods of other scenes began at other times.
        self.began = Dice(f"{seed} began").randrange(10**9)
        self.names = NODES

    def case(self, *, plain: bool) -> Json:
        dice = self.dice
        names = dice.sample(NODES, dice.randint(1, 8))
        if plain:
            config = configuration(arguments=random_arguments(dice, self.themes))
        else:
            config = random_configuration(dice, self.themes)
        # Half are about placing a pod that is easily placed, so that scores decide.
        easy = dice.often(0.5)
        case: Json = {
            "nodes": [self.node(name, easy=easy) for name in names],
            "pods": [self.standing(self.place(names)) for _ in range(dice.randint(0, 8))],
            "nominated": [],
            "pod": self.pod(easy=easy, dressed=0.8),
            "config": config,
            "objects": self.objects(names),
        }
        if dice.often(0.2):
            case["nominated"] = [self.promised(dice.choice(names)) for _ in range(3)]
        if dice.often(0.1):
            case["pod"]["status"]["nominatedNodeName"] = dice.choice(NODES)
            if "nodeName" not in case["pod"]["spec"] and dice.often(0.5):
                # As it waits in the cluster; it does not stand in its own way.
                case["nominated"].append(copied(case["pod"]))
        if len(config["profiles"]) > 1 and dice.often(0.5):
            case["pod"]["spec"]["schedulerName"] = SECOND_SCHEDULER
        if dice.often(0.03):
            near(dice, case)
        part_ports(case["pods"])
        return case

    def large_case(self) -> Json:
        dice = self.dice
        names = [f"n{number}" for number in range(dice.randint(99, 400))]
        easy = dice.often(0.7)
        wanted = self.pod(easy=easy, dressed=0.2)
        if easy:
            # Few demands, so that the search ends early.
            for container in wanted["spec"]["containers"]:
                container["resources"] = {}
        return {
            "nodes": [self.node(name, easy=easy) for name in names],
            "pods": [self.standing(dice.choice(names)) for _ in range(60)],
            "nominated": [self.promised(dice.choice(names)) for _ in range(5)],
            "pod": wanted,
            "config": configuration(percentage=dice.choice([0, 5, 30, 60, 100])),
            "objects": self.objects(names),
        }

    def place(self, names: list[str]) -> str:
        """Where a pod stands; now and then on a node that nobody has heard of, or that is gone."""
        return self.dice.choice(self.names if self.dice.often(0.03) else names)

    def pod(self, *, easy: bool = False, dressed: float = 0.5) -> Json:
        self.serial += 1
        made = pod(self.dice, f"p{self.serial}", easy=easy)
        for theme in self.themes:
            for dress in theme.pod:
                if self.dice.often(dressed):
                    dress(self.dice, made)
        return made

    def node(self, name: str, *, easy: bool) -> Json:
        made = node(self.dice, name, easy=easy)
        for theme in self.themes:
            for dress in theme.node:
                dress(self.dice, made)
        return made

    def standing(self, where: str) -> Json:
        made = standing(self.dice, self.pod(easy=True), where)
        self.begin(made)
        return made

    def begin(self, pod: Json) -> None:
        """No two pods begin at the same time: upstream's order of such pods depends on history."""
        if "startTime" not in pod["status"]:
            self.began += 1
            pod["status"]["startTime"] = rfc3339(self.began)

    def promised(self, where: str) -> Json:
        return promised(self.dice, self.pod(easy=True), where)

    def objects(self, names: list[str]) -> list[Json]:
        """Everything that is neither node nor pod; a later theme has the last word."""
        made = [thing for theme in self.themes for thing in theme.objects(self.dice, names)]
        return list({key_of(thing): thing for thing in made}.values())
