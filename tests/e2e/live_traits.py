"""What a pod of the live comparison may ask for besides resources: one *trait* a plugin.

Most traits can be satisfied somewhere, and some combinations nowhere: so pods are refused for
reasons that differ from node to node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.e2e.live_nodes import DISKS, GENERATIONS, POOLS, TAINTS
from tests.e2e.live_storage import Storage
from tests.parity.generate.dice import HOSTNAME, REGION, ZONE, Dice

Json = dict[str, Any]

NAMESPACES: dict[str, Json] = {
    "default": {},
    "shop": {"team": "shop", "env": "prod"},
    "bank": {"team": "bank", "env": "prod"},
    "lab": {"team": "lab", "env": "test"},
}
APPS, TIERS = ["web", "db", "cache"], ["front", "back"]
#: Few nodes to choose from, so that what only one pod of a node may have is soon taken.
_NARROW = {"pool": "c", "disk": "hdd"}


@dataclass(frozen=True)
class Traits:
    """Draws traits and writes them into pods."""

    dice: Dice
    nodes: list[Json]
    storage: Storage

    def add_to(self, pod: Json) -> None:
        """Up to three, without repetitions, in the order of the table: none undoes another."""
        traits, weights = list(_TRAITS), list(_TRAITS.values())
        chosen = self.dice.choices(traits, weights, k=self.dice.choice([0, 1, 1, 2, 2, 3]))
        for trait in traits:
            if trait in chosen:
                trait(self, pod)

    def _large(self, pod: Json) -> None:
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        name, amount = self.dice.choice(
            [("cpu", "5"), ("cpu", "64"), ("memory", "12Gi"), ("ephemeral-storage", "15Gi")]
        )
        if "resources" not in pod["spec"]:
            requests[name] = amount
            pod["spec"]["containers"][0]["resources"]["limits"].pop("cpu", None)

    # Choice of nodes

    def _selector(self, pod: Json) -> None:
        key, values = self.dice.choice([("disk", DISKS), ("pool", POOLS), (ZONE, ["z1", "z9"])])
        pod["spec"]["nodeSelector"] = {key: self.dice.choice(values)}

    def _required(self, pod: Json) -> None:
        terms = [self._term() for _ in range(self.dice.choice([1, 1, 2]))]
        self._affinity(pod, "nodeAffinity", "required", {"nodeSelectorTerms": terms})

    def _preferred(self, pod: Json) -> None:
        terms = [
            {"weight": self.dice.choice([1, 20, 100]), "preference": self._term()}
            for _ in range(self.dice.choice([1, 2]))
        ]
        self._affinity(pod, "nodeAffinity", "preferred", terms)

    def _named(self, pod: Json) -> None:
        """One term only: kube-scheduler looks at several named nodes in a random order.

        No volumes either: their last changes may come when the next pod is already refused, which
        is then tried again, and a pod that names its node moves the place where the search begins.
        """
        pod["spec"].pop("volumes", None)
        name = self.dice.choice(self.nodes)["metadata"]["name"]
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
        if self.dice.often(0.2):
            term["matchFields"].append(
                {"key": "metadata.name", "operator": "In", "values": ["nowhere"]}
            )
        self._affinity(pod, "nodeAffinity", "required", {"nodeSelectorTerms": [term]})

    def _term(self) -> Json:
        dice = self.dice
        if dice.often(0.1):
            name = dice.choice(self.nodes)["metadata"]["name"]
            return {
                "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [name]}]
            }
        expressions = []
        for _ in range(dice.choice([1, 1, 2])):
            operator = dice.choice(["In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
            key, values = dice.choice([("disk", DISKS), ("pool", POOLS), (REGION, ["east"])])
            expression: Json = {"key": key, "operator": operator}
            if operator in ("In", "NotIn"):
                expression["values"] = dice.sample(values, 1)
            elif operator in ("Gt", "Lt"):
                expression |= {"key": "gen", "values": [dice.choice(GENERATIONS)]}
            expressions.append(expression)
        return {"matchExpressions": expressions}

    def _tolerating(self, pod: Json) -> None:
        tolerations: list[Json] = []
        for taint in self.dice.some(TAINTS, 2):
            toleration = {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]}
            if "value" in taint and self.dice.often(0.5):
                toleration |= {"operator": "Equal", "value": taint["value"]}
            tolerations.append(toleration)
        if self.dice.often(0.2):
            tolerations.append({"operator": "Exists"})
        pod["spec"]["tolerations"] = tolerations

    def _port(self, pod: Json) -> None:
        port: Json = {"containerPort": 80, "hostPort": self.dice.choice([80, 443])}
        if self.dice.often(0.3):
            port["hostIP"] = self.dice.choice(["10.0.0.1", "10.0.0.2"])
        if self.dice.often(0.2):
            port["protocol"] = "UDP"
        pod["spec"]["containers"][0]["ports"] = [port]
        if self.dice.often(0.5):
            pod["spec"]["nodeSelector"] = {**_NARROW}

    def _restarting(self, pod: Json) -> None:
        rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [3]}}
        pod["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}

    # Other pods

    def _spread(self, pod: Json) -> None:
        dice = self.dice
        constraints: dict[tuple[str, str], Json] = {}
        for _ in range(dice.choice([1, 1, 2])):
            key = dice.choice([ZONE, ZONE, HOSTNAME, "pool", "rack"] if dice.often(0.3) else [ZONE])
            action = dice.choice(["DoNotSchedule", "ScheduleAnyway"])
            constraint: Json = {
                "topologyKey": key,
                "whenUnsatisfiable": action,
                "maxSkew": dice.choice([1, 1, 2]),
                "labelSelector": self._pod_selector(pod),
            }
            if action == "DoNotSchedule" and dice.often(0.3):
                constraint["minDomains"] = dice.choice([2, 4, 5])
            if dice.often(0.3):
                constraint["nodeAffinityPolicy"] = dice.choice(["Honor", "Ignore"])
            if dice.often(0.3):
                constraint["nodeTaintsPolicy"] = dice.choice(["Honor", "Ignore"])
            if dice.often(0.3):
                constraint["matchLabelKeys"] = ["rev"]
            constraints[key, action] = constraint
        pod["spec"]["topologySpreadConstraints"] = list(constraints.values())

    def _near(self, pod: Json) -> None:
        terms = [self._pod_term(pod, near=True)]
        self._affinity(pod, "podAffinity", "required", terms)

    def _apart(self, pod: Json) -> None:
        terms = [self._pod_term(pod, near=False) for _ in range(self.dice.choice([1, 1, 2]))]
        self._affinity(pod, "podAntiAffinity", "required", terms)

    def _leaning(self, pod: Json) -> None:
        for kind in self.dice.sample(["podAffinity", "podAntiAffinity"], 1 + self.dice.often(0.3)):
            weight = self.dice.choice([1, 50, 100])
            term = {"weight": weight, "podAffinityTerm": self._pod_term(pod, near=True)}
            self._affinity(pod, kind, "preferred", [term])

    def _pod_term(self, pod: Json, *, near: bool) -> Json:
        """Required distance is kept per host mostly: zones are few, and soon all taken."""
        dice = self.dice
        keys = [ZONE, REGION, HOSTNAME, "pool"] if near else [HOSTNAME] * 5 + [ZONE]
        term: Json = {"topologyKey": dice.choice(keys), "labelSelector": self._pod_selector(pod)}
        if dice.often(0.25):
            term["namespaces"] = dice.sample(list(NAMESPACES), 2)
        if dice.often(0.3):
            term["namespaceSelector"] = dice.choice(
                [
                    {},
                    {"matchLabels": {"env": "prod"}},
                    {"matchLabels": {"team": "lab"}},
                    {"matchExpressions": [_expression("env", "In", "test", "dev")]},
                    {"matchExpressions": [_expression("team", "Exists")]},
                    {"matchExpressions": [_expression("env", "NotIn", "prod")]},
                ]
            )
        if dice.often(0.2):
            term[dice.choice(["matchLabelKeys", "mismatchLabelKeys"])] = ["rev"]
        return term

    def _pod_selector(self, pod: Json) -> Json:
        """Mostly the pod's own kind; `rev` is left to matchLabelKeys."""
        dice = self.dice
        if dice.often(0.05):
            return {}
        own = pod["metadata"]["labels"]["app"]
        if dice.often(0.7):
            labels = {"app": dice.choice([own, own, *APPS])}
            if dice.often(0.4):
                labels["tier"] = dice.choice(TIERS)
            return {"matchLabels": labels}
        expressions = [
            _expression("app", "In", own, dice.choice(APPS)),
            _expression("app", "NotIn", dice.choice(APPS)),
            _expression("tier", "In", dice.choice(TIERS)),
            _expression("tier", "DoesNotExist"),
            _expression("unheard-of", "Exists"),
        ]
        return {"matchExpressions": dice.sample(expressions, dice.choice([1, 2]))}

    def _affinity(self, pod: Json, kind: str, strength: str, value: Any) -> None:
        affinity = pod["spec"].setdefault("affinity", {}).setdefault(kind, {})
        affinity[f"{strength}DuringSchedulingIgnoredDuringExecution"] = value

    # Volumes

    def _volumes(self, pod: Json) -> None:
        namespace = pod["metadata"]["namespace"]
        storage = self.storage
        kinds = {
            storage.bound: 35,
            storage.exclusive: 15,
            storage.in_tree: 10,
            storage.waiting: 25,
            storage.unprovided: 4,
            storage.missing: 4,
            storage.unbound: 3,
            storage.lost: 3,
            storage.terminating: 3,
        }
        chosen = self.dice.choices(list(kinds), list(kinds.values()), k=self.dice.choice([1, 2]))
        claims = dict.fromkeys(make(namespace) for make in chosen)
        pod["spec"]["volumes"] = [
            {"name": f"v{index}", "persistentVolumeClaim": {"claimName": claim}}
            for index, claim in enumerate(claims)
        ]
        if self.dice.often(0.5):
            self._selector(pod)

    def _ephemeral(self, pod: Json) -> None:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        template = {"volumeClaimTemplate": {"spec": spec}}
        pod["spec"].setdefault("volumes", []).append({"name": "own", "ephemeral": template})

    def _inline(self, pod: Json) -> None:
        """A disk that only one pod of a node may have."""
        kinds: list[Json] = [
            {
                "iscsi": {
                    "targetPortal": "10.0.0.9",
                    "iqn": "iqn.2001-04.com.example:a",
                    "lun": 0,
                }
            },
            {"rbd": {"monitors": ["10.0.0.8"], "image": "a", "readOnly": self.dice.often(0.5)}},
            {"gcePersistentDisk": {"pdName": "a", "readOnly": self.dice.often(0.5)}},
            {"awsElasticBlockStore": {"volumeID": self.dice.choice("ab")}},
        ]
        pod["spec"].setdefault("volumes", []).append({"name": "inline", **self.dice.choice(kinds)})
        if self.dice.often(0.8):
            pod["spec"]["nodeSelector"] = {**_NARROW}

    def _gated(self, pod: Json) -> None:
        pod["spec"]["schedulingGates"] = [{"name": "example.com/later"}]


def _expression(key: str, operator: str, *values: str) -> Json:
    expression: Json = {"key": key, "operator": operator}
    return expression | {"values": sorted(set(values))} if values else expression


#: Traits, and how often each comes.
_TRAITS: dict[Callable[[Traits, Json], None], int] = {
    Traits._large: 8,
    Traits._selector: 8,
    Traits._required: 8,
    Traits._preferred: 8,
    Traits._tolerating: 12,
    Traits._port: 8,
    Traits._restarting: 4,
    Traits._spread: 14,
    Traits._near: 8,
    Traits._apart: 8,
    Traits._leaning: 10,
    Traits._volumes: 18,
    Traits._ephemeral: 1,
    Traits._inline: 10,
    Traits._gated: 1,
    Traits._named: 4,
}
