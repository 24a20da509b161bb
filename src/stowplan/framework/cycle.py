"""The state of one scheduling attempt, handed to every plugin that takes part in it.

The runtime makes one `Cycle` an attempt. Plugins leave what they computed in PreFilter or PreScore
under a key of their own. For what-if questions the cycle is cloned, values that offer `clone()`
with it; everything else is shared and must not be changed afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from stowplan.api.objects import Pod
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import NodeTable
from stowplan.errors import PluginError

if TYPE_CHECKING:
    from stowplan.framework.stopwatch import Stopwatch
    from stowplan.framework.what_if import WhatIf

T = TypeVar("T")


class Cycle:
    """The pod, the table it is decided on, and the plugins' notes."""

    # `help(Cycle)` shows these texts; attributes without one are the framework's own.
    __slots__ = {
        "failures": None,
        "info": "The pod as a PodInfo: its requests as numbers.",
        "notes": "What `write` has left, by key.",
        "pod": "The pod to be placed, as the API server has it.",
        "skip_filter": None,
        "skip_score": None,
        "table": "All nodes in columns, see stowplan.Table.",
        "watch": None,
        "what_if": "Answers whether the pod would fit on rows as they might be; None in tests.",
    }

    def __init__(
        self,
        table: NodeTable,
        info: PodInfo,
        what_if: WhatIf | None = None,
        watch: Stopwatch | None = None,
    ) -> None:
        self.table = table
        #: Times the plugins' calls, if they are to be timed.
        self.watch = watch
        self.what_if = what_if
        self.info = info
        self.pod: Pod = info.pod
        #: Plugins that skipped in PreFilter (not asked about what-if pods either) and in PreScore.
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.notes: dict[object, Any] = {}
        #: What plugins raised where that ends their part of the attempt; the engine logs it.
        self.failures: list[PluginError] = []

    def write(self, key: object, value: Any) -> None:
        """Leave a value for later extension points; a plugin uses its name or a type as key."""
        self.notes[key] = value

    def read(self, key: object) -> Any:
        """The value under a key; KeyError if there is none."""
        return self.notes[key]

    def get(self, key: type[T]) -> T | None:
        """The value left under its own type, if any."""
        value = self.notes.get(key)
        assert value is None or isinstance(value, key)
        return value

    def spend(self, elements: int) -> None:
        """Count work that a pod of unusual size causes, after each piece of it is cached.

        The unit is an array element (about 1 ns); a microsecond of Python is 1,000. Raises
        `DecisionDeferred` once the decision has spent about 50 ms: let it pass. The pod is tried
        again after other pods, and must find the finished pieces.
        """
        self.table.work.spend(elements)

    def clone(self) -> Cycle:
        """A copy for what-if questions; of notes that have a `clone` method, too."""
        twin = Cycle(self.table, self.info, self.what_if, self.watch)
        twin.skip_filter = set(self.skip_filter)
        twin.skip_score = set(self.skip_score)
        twin.notes = {
            key: value.clone() if hasattr(value, "clone") else value
            for key, value in self.notes.items()
        }
        return twin
