"""Random histories of devices: pods come, are bound or held on the way, and go; slices, classes,
claims and nodes change.

A history is a generator of lines. It is sent our answer to each, because where a pod goes, and with
which devices, decides what its claims say from then on.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

from tests.parity.generate.configurations import configuration
from tests.parity.generate.device_case import NAMESPACE, DeviceScene
from tests.parity.generate.device_claims import classes, reserve
from tests.parity.generate.device_slices import slices, taint
from tests.parity.generate.dice import Json, copied

History: TypeAlias = Generator[Json, Json, None]
_STEPS = 30


def device_history(seed: int | str) -> History:
    """Lines of one history; the same for the same seed and answers."""
    return DeviceHistory(seed).lines()


def asks_extended(pod: Json) -> bool:
    """Whether the pod asks for devices as a resource: PreBind would then make a claim for it."""
    return any("requests" in container["resources"] for container in pod["spec"]["containers"])


class DeviceHistory(DeviceScene):
    def __init__(self, seed: int | str) -> None:
        super().__init__(seed)
        self.there: dict[tuple[str, str], Json] = {}
        self.line: Json = {}
        #: Pods that run, that are held between Reserve and PreBind (with what they get), that wait.
        self.bound: list[Json] = []
        self.held: list[tuple[Json, str, list[Json]]] = []
        self.waiting: list[Json] = []

    def lines(self) -> History:
        dice = self.dice
        self.slices = slices(dice, self.names)
        self.begin()
        self.line["config"] = configuration()
        objects = [*map(self.node, self.names), *self.slices, *classes(dice)]
        for thing in [*objects, *(self.claim_of_others() for _ in range(dice.randint(0, 2)))]:
            self.put(thing)
        yield self.line
        for number in range(1, _STEPS):
            self.begin(number)
            for _ in range(dice.choice([0, 0, 1, 1, 2])):
                self.change()
            if dice.often(0.85):
                yield from self.ask()
            else:
                yield self.line

    def begin(self, number: int = 0) -> None:
        self.line = {"id": number, "apply": [], "delete": [], "release": []}

    def put(self, thing: Json) -> None:
        key = (thing["kind"], thing["metadata"]["name"])
        if not self.is_touched(key):
            self.there[key] = thing
            self.line["apply"].append(copied(thing))

    def remove(self, key: tuple[str, str]) -> None:
        if key in self.there and not self.is_touched(key):
            del self.there[key]
            kind, name = key
            namespace = {"namespace": NAMESPACE} if kind in ("Pod", "ResourceClaim") else {}
            self.line["delete"].append({"kind": kind, "name": name, **namespace})

    def is_touched(self, key: tuple[str, str]) -> bool:
        """One line says one thing about an object."""
        return key in self.touched()

    def touched(self) -> set[tuple[str, str]]:
        names = {(one["kind"], one["metadata"]["name"]) for one in self.line["apply"]}
        return names | {(one["kind"], one["name"]) for one in self.line["delete"]}

    def known(self, kind: str) -> list[Json]:
        return [copied(thing) for (of, _), thing in self.there.items() if of == kind]

    # Questions

    def ask(self) -> History:
        dice = self.dice
        if self.waiting and dice.often(0.3):
            pod = self.waiting.pop(dice.randrange(len(self.waiting)))
        else:
            self.taken = self.in_use()
            pod, claims = self.pod()
            if dice.often(0.2):
                self.share_claim(pod)
            for one in claims:
                self.put(one)
        self.line["pod"] = pod
        answer = yield self.line
        node = next((choice.get("node") for choice in answer["choices"]), None)
        if not node or "error" in answer:
            self.waiting.append(pod)
            return
        allocated = answer["devices"]["nodes"].get(node, [])
        match (
            "wait" if asks_extended(pod) else dice.choice(["bind", "bind", "bind", "hold", "wait"])
        ):
            case "bind":
                self.begin(self.line["id"])
                self.bind(pod, node, allocated)
                yield self.line
            case "hold":
                self.begin(self.line["id"])
                self.line |= {"pod": pod, "hold": node}
                self.held.append((pod, node, allocated))
                yield self.line
            case _:
                self.waiting.append(pod)

    def in_use(self) -> set[tuple[str, str, str]]:
        """Devices that claims hold or will hold soon.

        No two claims hold one: upstream believes it to be free when the first of them lets go.
        """
        allocations = [one["status"].get("allocation") for one in self.known("ResourceClaim")]
        allocations += [one["allocation"] for _, _, given in self.held for one in given]
        return {
            (result["driver"], result["pool"], result["device"])
            for allocation in allocations
            if allocation
            for result in allocation["devices"].get("results", ())
        }

    def share_claim(self, pod: Json) -> None:
        """Let the pod use a claim that others may use, too."""
        claims = [
            one for one in self.known("ResourceClaim") if "ownerReferences" not in one["metadata"]
        ]
        on_the_way = [one for pod, _, _ in self.held for one in self.claims_of(pod)]
        if on_the_way and self.dice.often(0.5):
            claims = on_the_way
        if claims:
            name = self.dice.choice(claims)["metadata"]["name"]
            pod["spec"]["resourceClaims"].append({"name": "shared", "resourceClaimName": name})

    def bind(self, pod: Json, node: str, allocated: list[Json]) -> None:
        """What PreBind and the binding would write."""
        given = {one["claim"]: one["allocation"] for one in allocated}
        for made in self.claims_of(pod):
            allocation = given.get(made["metadata"]["name"])
            if allocation is not None:
                for result in allocation["devices"].get("results", ()):
                    if "shareID" in result:
                        result["shareID"] = (
                            f"00000000-0000-0000-0000-{self.dice.randrange(10**12):012}"
                        )
                made["status"]["allocation"] = allocation
                made["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
            users = made["status"].setdefault("reservedFor", [])
            if all(user["uid"] != pod["metadata"]["uid"] for user in users):
                metadata = pod["metadata"]
                users.append({"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]})
            self.put(made)
        bound = copied(pod)
        bound["spec"]["nodeName"] = node
        bound["status"]["phase"] = "Running"
        self.put(bound)
        self.bound.append(bound)

    def claims_of(self, pod: Json) -> list[Json]:
        made = {
            one["name"]: one.get("resourceClaimName")
            for one in pod["status"].get("resourceClaimStatuses", ())
        }
        names = [
            entry.get("resourceClaimName") or made.get(entry["name"])
            for entry in pod["spec"]["resourceClaims"]
        ]
        found = (self.there.get(("ResourceClaim", name)) for name in names if name)
        return [copied(one) for one in found if one is not None]

    # Changes

    def change(self) -> None:
        weighted = [
            (self.end_pod, 6),
            (self.finish_held, 5),
            (self.change_slice, 5),
            (self.replace_pool, 2),
            (self.change_claim, 3),
            (self.change_class, 1),
            (self.change_node, 1),
        ]
        whats, weights = zip(*weighted, strict=True)
        self.dice.choices(whats, weights)[0]()

    def end_pod(self) -> None:
        if not self.bound:
            return
        pod = self.bound.pop(self.dice.randrange(len(self.bound)))
        self.remove(("Pod", pod["metadata"]["name"]))
        for made in self.claims_of(pod):
            self.leave(made, pod["metadata"]["uid"])

    def leave(self, made: Json, uid: str) -> None:
        """What the controller writes when a pod that used the claim is gone."""
        users = [one for one in made["status"].get("reservedFor", ()) if one["uid"] != uid]
        made["status"]["reservedFor"] = users
        match self.dice.randrange(4):
            case 0 if not users:
                self.remove(("ResourceClaim", made["metadata"]["name"]))
            case 1 | 2 if not users:
                made["status"] = {}
                self.put(made)
            case _:
                self.put(made)

    def finish_held(self) -> None:
        if not self.held:
            return
        pod, node, allocated = self.held.pop(self.dice.randrange(len(self.held)))
        self.line["release"].append(pod["metadata"]["uid"])
        if self.dice.often(0.6):
            self.bind(pod, node, allocated)
        else:
            self.waiting.append(pod)

    def change_slice(self) -> None:
        if not (known := self.known("ResourceSlice")):
            return
        dice = self.dice
        made = dice.choice(known)
        devices = made["spec"].get("devices")
        match dice.randrange(6):
            case 0:
                self.remove(("ResourceSlice", made["metadata"]["name"]))
                return
            case 1:
                made["spec"]["pool"]["generation"] += dice.choice([-1, 1, 1])
            case 2 if devices:
                devices.pop()
            case 3 if devices:
                dice.choice(devices)["taints"] = [taint(dice)]
            case 4 if devices:
                dice.choice(devices).pop("taints", None)
            case _:
                self.count_slices(made["spec"]["pool"], dice.choice([-1, 1]))
                return
        for other in self.of_pool(made["spec"]["pool"]):
            made["spec"]["pool"]["resourceSliceCount"] = other["spec"]["pool"]["resourceSliceCount"]
        self.put(made)

    def of_pool(self, pool: Json) -> list[Json]:
        """Slices of one generation; where they differ in their number, upstream takes any."""
        of = (pool["name"], pool["generation"])
        return [
            one
            for one in self.known("ResourceSlice")
            if (one["spec"]["pool"]["name"], one["spec"]["pool"]["generation"]) == of
        ]

    def count_slices(self, pool: Json, change: int) -> None:
        slices = self.of_pool(pool)
        if not any(self.is_touched(("ResourceSlice", one["metadata"]["name"])) for one in slices):
            for one in slices:
                one["spec"]["pool"]["resourceSliceCount"] += change
                self.put(one)

    def replace_pool(self) -> None:
        """A driver publishes one of its pools anew, in the place of what it had published."""
        new = slices(self.dice, self.names)
        if not new or any(kind == "ResourceSlice" for kind, _ in self.touched()):
            return
        pool = self.dice.choice(new)["spec"]["pool"]["name"]
        new = [one for one in new if one["spec"]["pool"]["name"] == pool]
        kept = {one["metadata"]["name"] for one in new}
        for one in self.known("ResourceSlice"):
            if one["spec"]["pool"]["name"] == pool and one["metadata"]["name"] not in kept:
                self.remove(("ResourceSlice", one["metadata"]["name"]))
        for one in new:
            self.put(one)
        self.slices = self.known("ResourceSlice")

    def change_claim(self) -> None:
        dice = self.dice
        if not (known := self.known("ResourceClaim")):
            return
        made = dice.choice(known)
        match dice.randrange(4):
            case 0:
                # Another claim of the same name.
                made["metadata"]["uid"] += "-again"
                made["status"] = {}
            case 1:
                made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            case 2:
                self.remove(("ResourceClaim", made["metadata"]["name"]))
                return
            case _:
                if "allocation" in made["status"]:
                    reserve(made, [("elsewhere", "uid-elsewhere")])
        self.put(made)

    def change_class(self) -> None:
        made = self.dice.choice(classes(self.dice))
        if self.dice.often(0.2):
            self.remove(("DeviceClass", made["metadata"]["name"]))
        else:
            self.put(made)

    def change_node(self) -> None:
        name = self.dice.choice(self.names)
        if self.dice.often(0.2):
            self.remove(("Node", name))
        else:
            self.put(self.node(name))
