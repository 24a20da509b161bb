"""Which taints a pod tolerates; the rules of kube-scheduler's taint handling, in one place.

Called by the table's taint masks, by DaemonSet-like checks and by explanations. The comparison
operators Lt and Gt belong to an alpha feature that is off: such a toleration matches nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stowplan.api.objects import Taint, Toleration

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

HARD_EFFECTS = frozenset({NO_SCHEDULE, NO_EXECUTE})
"""The effects that keep a pod off a node."""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration matches one taint.

    An empty effect or key matches any. An empty key does not by itself mean "everything": with
    the operator Equal (or none) the values are still compared.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


class Tolerations:
    """A pod's tolerations, indexed: one taint costs the same whatever their number."""

    __slots__ = ("_matched",)

    def __init__(self, tolerations: Iterable[Toleration] | None) -> None:
        #: Key, effect and value of what is tolerated; "" is any key or effect, None any value.
        self._matched: set[tuple[str, str, str | None]] = set()
        for toleration in tolerations or ():
            if toleration.operator in ("", "Equal"):
                self._matched.add((toleration.key, toleration.effect, toleration.value))
            elif toleration.operator == "Exists":
                self._matched.add((toleration.key, toleration.effect, None))

    def match(self, taint: Taint) -> bool:
        """Whether one of them `tolerates` a taint."""
        matched = self._matched
        return bool(matched) and any(
            (key, effect, value) in matched
            for key in (taint.key, "")
            for effect in (taint.effect, "")
            for value in (taint.value, None)
        )

    def find_untolerated(
        self, taints: Iterable[Taint] | None, effects: Collection[str]
    ) -> Taint | None:
        """The first taint with one of these effects that nothing tolerates, in the node's order."""
        for taint in taints or ():
            if taint.effect in effects and not self.match(taint):
                return taint
        return None
