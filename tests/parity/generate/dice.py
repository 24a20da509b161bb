"""The dice that every part of a random case is drawn with, and the words all parts share.

Words are few, so that selectors, claims and namespaces often meet what they speak of.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, TypeAlias, TypeVar

import msgspec

Json: TypeAlias = dict[str, Any]
T = TypeVar("T")

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"

NODES = [f"n{number}" for number in range(10)]
NAMESPACES = ["default", "prod", "test"]
#: Labels of pods, which selectors of services, spreading and affinity speak of.
POD_LABELS = {"app": ["web", "db", ""], "tier": ["front", "back"], "track": ["stable", "canary"]}


def copied(thing: Json) -> Json:
    """A copy of a whole object; several times quicker than `copy.deepcopy`."""
    made: Json = msgspec.json.decode(msgspec.json.encode(thing))
    return made


class Dice(Random):
    """A seeded source of choices."""

    def often(self, chance: float) -> bool:
        return self.random() < chance

    def some(self, values: Sequence[T], most: int) -> list[T]:
        """Up to so many of the values, with repetitions."""
        return [self.choice(values) for _ in range(self.randint(0, most))]

    def pod_labels(self) -> Json:
        return {key: self.choice(values) for key, values in POD_LABELS.items() if self.often(0.7)}

    def label_selector(self) -> Json:
        """A selector of pods as the API accepts it; empty ones match all."""
        if self.often(0.1):
            return {}
        selector: Json = {}
        if self.often(0.6):
            key = self.choice(list(POD_LABELS))
            selector["matchLabels"] = {key: self.choice(POD_LABELS[key])}
        if self.often(0.5):
            selector["matchExpressions"] = [self.requirement() for _ in range(self.randint(1, 2))]
        return selector

    def requirement(self) -> Json:
        key = self.choice([*POD_LABELS, "unheard-of"])
        operator = self.choice(["In", "In", "NotIn", "Exists", "DoesNotExist"])
        if operator in ("Exists", "DoesNotExist"):
            return {"key": key, "operator": operator}
        values = POD_LABELS.get(key, ["x"])
        return {"key": key, "operator": operator, "values": self.some(values, 2) or [values[0]]}
