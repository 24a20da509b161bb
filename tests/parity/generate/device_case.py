"""Random questions about devices: a pod with claims, the slices and claims of its cluster.

Like `case.py`, as lines of `stowplan decide`. Little but devices keeps a pod from a node here; the
cases of `case.py` are about everything else.
"""

from __future__ import annotations

from tests.parity.generate.configurations import configuration
from tests.parity.generate.device_claims import EXTENDED, IMPLICIT, claim, classes, hold, reserve
from tests.parity.generate.device_slices import slices
from tests.parity.generate.dice import HOSTNAME, NODES, ZONE, Dice, Json

NAMESPACE = "default"


def device_line(seed: int | str) -> Json:
    """A question; the same for the same seed."""
    return DeviceScene(seed).question(seed)


class DeviceScene:
    """Draws the parts of one case."""

    def __init__(self, seed: int | str) -> None:
        self.dice = Dice(seed)
        self.names = self.dice.sample(NODES, self.dice.choice([1, 2, 3, 3, 4, 5]))
        #: Devices that claims hold.
        self.taken: set[tuple[str, str, str]] = set()
        self.serial = 0

    def question(self, number: int | str) -> Json:
        self.slices = slices(self.dice, self.names)
        objects = [*map(self.node, self.names), *self.slices, *classes(self.dice)]
        objects += [self.claim_of_others() for _ in range(self.dice.choice([0, 0, 1, 2, 4]))]
        pod, claims = self.pod()
        objects += claims
        return {"id": number, "config": configuration(), "objects": objects, "pod": pod}

    def node(self, name: str) -> Json:
        dice = self.dice
        # A node that moves to another zone is found in another place by the oracle, which looks
        # anew each time, than by a scheduler.
        labels = {HOSTNAME: name, ZONE: f"z{1 + int(name[1:]) % 2}"}
        if dice.often(0.5):
            labels["gpu"] = "yes"
        amounts = {"cpu": dice.choice(["4", "8"]), "memory": "16Gi", "pods": "110"}
        if dice.often(0.1):
            # A device plugin's.
            amounts[EXTENDED] = dice.choice(["0", "1", "2"])
        node: Json = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": {"allocatable": amounts, "capacity": amounts},
        }
        if dice.often(0.05):
            node["spec"]["unschedulable"] = True
        return node

    def claim_of_others(self) -> Json:
        self.serial += 1
        made = claim(self.dice, f"other{self.serial}", NAMESPACE)
        hold(self.dice, made, self.slices, self.taken)
        reserve(made, [("elsewhere", "uid-elsewhere")])
        return made

    def pod(self) -> tuple[Json, list[Json]]:
        """A pod, and its claims as far as they exist."""
        dice = self.dice
        self.serial += 1
        name = f"p{self.serial}"
        made: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"},
            "spec": {
                "schedulerName": "default-scheduler",
                "containers": [
                    {"name": f"c{number}", "image": "pause", "resources": {}}
                    for number in range(dice.choice([1, 1, 2]))
                ],
                "resourceClaims": [],
            },
            "status": {"phase": "Pending"},
        }
        claims = []
        is_extended = dice.often(0.12)
        for number in range(dice.choice([0, 0, 1] if is_extended else [1, 1, 1, 1, 2, 3])):
            claims += self.claim_of(made, number)
        if is_extended:
            for container in made["spec"]["containers"][: dice.choice([1, 2])]:
                amounts = {
                    dice.choice([EXTENDED, EXTENDED, IMPLICIT]): dice.choice(["1", "1", "2"])
                }
                container["resources"] |= {"requests": amounts, "limits": amounts}
        return made, claims

    def claim_of(self, pod: Json, number: int) -> list[Json]:
        """Give the pod a claim, by name or by template; the claims that exist then."""
        dice = self.dice
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        made = claim(dice, f"{name}-claim{number}", NAMESPACE)
        entry: Json = {"name": f"devices{number}"}
        pod["spec"]["resourceClaims"].append(entry)
        for container in pod["spec"]["containers"]:
            if dice.often(0.8):
                used = {"name": entry["name"]}
                container["resources"].setdefault("claims", []).append(used)
        if dice.often(0.5):
            entry["resourceClaimName"] = made["metadata"]["name"]
        else:
            entry["resourceClaimTemplateName"] = "template"
            self.make_from_template(pod, entry, made)
        if dice.often(0.15):
            self.allocate(made, name, uid)
        if dice.often(0.02):
            made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if dice.often(0.02):
            return []
        return [made]

    def make_from_template(self, pod: Json, entry: Json, made: Json) -> None:
        dice = self.dice
        status = {"name": entry["name"], "resourceClaimName": made["metadata"]["name"]}
        if dice.often(0.03):
            # A claim that was not needed.
            del status["resourceClaimName"]
        if dice.often(0.97):
            pod["status"].setdefault("resourceClaimStatuses", []).append(status)
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod["metadata"]["name"],
            "uid": pod["metadata"]["uid"],
            "controller": True,
        }
        if dice.often(0.03):
            owner["uid"] = "uid-of-another"
        made["metadata"]["ownerReferences"] = [owner]

    def allocate(self, made: Json, name: str, uid: str) -> None:
        """The claim of the pod was allocated in an earlier attempt, or for others who share it."""
        hold(self.dice, made, self.slices, self.taken)
        friend = ("friend", "uid-friend")
        match self.dice.randrange(5):
            case 0:
                reserve(made, [(name, uid)])
            case 1:
                reserve(made, [friend])
            case 2:
                reserve(made, [friend, (name, uid)])
