"""Random affinity between pods, and the namespaces that it speaks of.

Terms are as an API server would have stored them: label keys that are to match or to differ are
merged into the selector already. Many speak of the pod that carries them, as people's do. A few
have values that only older API servers took, which kube-scheduler cannot parse.
"""

from __future__ import annotations

from tests.parity.generate.dice import HOSTNAME, NAMESPACES, REGION, ZONE, Dice, Json

#: Mostly what nodes have; "disk" gives large domains, and one key that no node has.
TOPOLOGY_KEYS = [HOSTNAME, HOSTNAME, HOSTNAME, ZONE, ZONE, ZONE, REGION, "disk", "unheard-of"]
#: Namespaces with these labels exist, more or less.
NAMESPACE_LABELS = {
    "default": {},
    "prod": {"stage": "prod", "team": "a"},
    "test": {"stage": "test"},
    "empty": {"stage": "prod", "team": ""},
}
AFFINITY_ARGUMENTS: list[Json] = [
    {"InterPodAffinity": {"hardPodAffinityWeight": 0}},
    {"InterPodAffinity": {"hardPodAffinityWeight": 100}},
    {"InterPodAffinity": {"hardPodAffinityWeight": 37}},
    {"InterPodAffinity": {"ignorePreferredTermsOfExistingPods": True}},
    {
        "InterPodAffinity": {
            "hardPodAffinityWeight": 5,
            "ignorePreferredTermsOfExistingPods": True,
        }
    },
]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def pod_affinity(dice: Dice, pod: Json) -> None:
    """Give a pod wishes about other pods, beside what it wishes of nodes."""
    affinity: Json = pod["spec"].get("affinity") or {}
    if dice.often(0.6):
        affinity["podAffinity"] = _wishes(dice, pod, required=0.4)
    if dice.often(0.6):
        affinity["podAntiAffinity"] = _wishes(dice, pod, required=0.5)
    pod["spec"]["affinity"] = affinity


def affinity_objects(dice: Dice) -> list[Json]:
    """Namespaces; one that pods are in may not have been heard of yet."""
    return [
        _namespace(dice, name, labels)
        for name, labels in NAMESPACE_LABELS.items()
        if dice.often(0.9)
    ]


def _namespace(dice: Dice, name: str, labels: Json) -> Json:
    metadata: Json = {"name": name}
    if dice.often(0.9):
        metadata["labels"] = {"kubernetes.io/metadata.name": name, **labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _wishes(dice: Dice, pod: Json, *, required: float) -> Json:
    wishes: Json = {}
    if dice.often(required):
        wishes[_REQUIRED] = [_term(dice, pod) for _ in range(dice.choice([1, 1, 1, 2, 3]))]
    elif dice.often(0.1):
        wishes[_REQUIRED] = dice.choice([None, []])
    if dice.often(0.6):
        wishes[_PREFERRED] = [
            {"weight": dice.choice([1, 1, 2, 50, 99, 100]), "podAffinityTerm": _term(dice, pod)}
            for _ in range(dice.choice([1, 1, 2, 3]))
        ]
    elif dice.often(0.1):
        wishes[_PREFERRED] = dice.choice([None, []])
    return wishes


def _term(dice: Dice, pod: Json) -> Json:
    term: Json = {"topologyKey": dice.choice(TOPOLOGY_KEYS)}
    labels: Json = pod["metadata"].get("labels") or {}
    if dice.often(0.95):
        term["labelSelector"] = _selector(dice, labels)
        _merge_label_keys(dice, term, labels)
    elif dice.often(0.3):
        term["labelSelector"] = None
    if dice.often(0.2):
        term["namespaces"] = dice.some([*NAMESPACES, "nowhere"], 3)
    if dice.often(0.35):
        term["namespaceSelector"] = _namespace_selector(dice)
    return term


def _selector(dice: Dice, labels: Json) -> Json:
    """Half of them speak of pods like the one that asks."""
    if labels and dice.often(0.5):
        key = dice.choice(list(labels))
        return {"matchLabels": {key: labels[key]}}
    if dice.often(0.01):
        return {"matchLabels": {"app": "not a value!"}}
    return dice.label_selector()


def _merge_label_keys(dice: Dice, term: Json, labels: Json) -> None:
    """What the API server does on creation; a label may be spoken of in one place only."""
    selector = term["labelSelector"]
    taken = {*selector.get("matchLabels", ())}
    taken |= {expression["key"] for expression in selector.get("matchExpressions", ())}
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        keys = [key for key in labels if dice.often(0.15) and key not in taken]
        if keys:
            term[field] = keys
            taken.update(keys)
            expressions = selector.setdefault("matchExpressions", [])
            expressions += [
                {"key": key, "operator": operator, "values": [labels[key]]} for key in keys
            ]


def _namespace_selector(dice: Dice) -> Json:
    """All namespaces, some, or those that lack something: kube-scheduler errs about the last."""
    expression: Json = {
        "key": dice.choice(["stage", "team", "unheard-of"]),
        "operator": dice.choice(["In", "NotIn", "Exists", "DoesNotExist"]),
    }
    if expression["operator"] in ("In", "NotIn"):
        expression["values"] = dice.sample(["prod", "test", "a", ""], dice.randint(1, 2))
    return dice.choice(
        [
            {},
            {},
            {"matchLabels": {"stage": dice.choice(["prod", "test"])}},
            {"matchLabels": {"kubernetes.io/metadata.name": dice.choice(NAMESPACES)}},
            {"matchExpressions": [expression]},
            {"matchExpressions": [expression], "matchLabels": {"stage": "prod"}},
        ]
    )
