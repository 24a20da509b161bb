"""The long way to a cluster: the same objects in the end, after others have come and gone.

Whatever we keep from step to step must not show in the answer. A few things do show upstream as
well (an image's size is that of the node which reported it first); so where an answer differs, the
oracle is asked to go the same way.
"""

from __future__ import annotations

from functools import lru_cache

from tests.parity.generate.case import key_of, random_case
from tests.parity.generate.dice import Dice, Json, copied
from tests.parity.generate.sequence import reference


def long_way(line: Json) -> Json:
    """A sequence that ends with the cluster and the question of `line`."""
    dice = Dice(str(line["id"]))
    others = _others(dice, line)
    first = [_earlier(dice, thing) for thing in line["objects"] if dice.often(0.6)]
    steps: list[Json] = [
        {"apply": [*_shuffled(dice, others, first)], "pod": line["pod"]},
        {"delete": [reference(key_of(thing)) for thing in first if dice.often(0.2)]},
        {"apply": [thing for thing in line["objects"] if dice.often(0.5)], "pod": line["pod"]},
        {"delete": [reference(key_of(thing)) for thing in others]},
        {"apply": line["objects"], "pod": line["pod"], "tried": True},
    ]
    for number, step in enumerate(steps):
        step["id"] = f"{line['id']}/{number}"
    return {"config": line["config"], "steps": steps, "tight": dice.often(0.3)}


def _shuffled(dice: Dice, *lists: list[Json]) -> list[Json]:
    things = [thing for each in lists for thing in each]
    dice.shuffle(things)
    return things


def _others(dice: Dice, line: Json) -> list[Json]:
    """Objects of another case that are not in this one."""
    # Of a few cases, again and again.
    case = _case(dice.randrange(50))
    taken = {key_of(thing) for thing in line["objects"]} | {key_of(line["pod"])}
    found: dict[object, Json] = {}
    for thing in [*case["nodes"], *case["pods"], *case["nominated"], *case["objects"]]:
        thing = copied(thing)
        if thing["kind"] == "Pod":
            # Of a uid of their own, too.
            thing["metadata"]["uid"] = f"other-{thing['metadata']['uid']}"
            thing["metadata"]["name"] = f"other-{thing['metadata']['name']}"
        if key_of(thing) not in taken and dice.often(0.7):
            found[key_of(thing)] = thing
    return list(found.values())


@lru_cache
def _case(number: int) -> Json:
    return random_case(f"others {number}")


def _earlier(dice: Dice, thing: Json) -> Json:
    """What the object may have looked like before."""
    earlier = copied(thing)
    metadata = earlier["metadata"]
    if dice.often(0.3):
        return earlier
    if thing["kind"] == "Pod":
        metadata["labels"] = dice.pod_labels()
        metadata.pop("deletionTimestamp", None)
        earlier["status"].pop("containerStatuses", None)
        if dice.often(0.3):
            earlier["spec"].pop("nodeName", None)
            earlier["status"]["nominatedNodeName"] = thing["spec"].get("nodeName", "n0")
    elif thing["kind"] == "Node":
        metadata["labels"] = {"disk": "ssd"}
        earlier["spec"] = {"taints": [{"key": "a", "value": "", "effect": "NoSchedule"}]}
        earlier["status"]["allocatable"] = {"cpu": "1", "memory": "1Gi", "pods": "5"}
    else:
        metadata.pop("labels", None)
    return earlier
