"""Plugins with one mistake each, for the tests of the checks; and two that have none."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Hashable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import stowplan
from stowplan import Cycle, EventHint, NodeView, Plugin, Pod, Reads, Status
from stowplan.cluster.pod_info import PodInfo

log = logging.getLogger(__name__)


@stowplan.filter
def on_ssd(pod: Pod, node: NodeView) -> bool | str:
    return node.labels.get("disk") == "ssd" or "node(s) had no SSD"


class GoodColumns(Plugin):
    """Without a mistake: both forms, kept columns, events, arguments."""

    class Args(msgspec.Struct, frozen=True):
        label: str = "disk"

    name = "GoodColumns"
    reads = Reads.NODE
    verdicts = (stowplan.unresolvable("node(s) had another disk"),)

    def sign(self, info: PodInfo) -> Hashable:
        return (info.pod.metadata.labels or {}).get("disk")

    def _wanted(self, pod: Pod) -> str | None:
        return (pod.metadata.labels or {}).get("disk")

    def filter(self, pod: Pod, node: NodeView) -> Status | None:
        wanted = self._wanted(pod)
        if wanted is None or node.labels.get(self.args.label) == wanted:
            return None
        return self.verdicts[0]

    def filter_columns(self, cycle: Cycle, rows: Any, out: Any, overlay: Any) -> None:
        wanted = self._wanted(cycle.pod)
        if wanted is None:
            out[rows] = 0
            return
        labels = cycle.table.labels
        column = labels.column(self.args.label)[rows]
        value = labels.values(self.args.label).get(wanted)
        out[rows] = 1 if value is None else column != value

    def events(self) -> list[EventHint]:
        action = stowplan.ActionType.ADD | stowplan.ActionType.UPDATE_NODE_LABEL
        return [EventHint(stowplan.ClusterEvent("Node", action))]


class Remembering(Plugin):
    """Impure: what it says depends on what it was asked before."""

    name = "Remembering"

    def __init__(self, args: Any = None, handle: Any = None) -> None:
        super().__init__(args, handle)
        self._asked = 0

    def pre_score(self, cycle: Cycle, rows: Any) -> None:
        self._asked += 1

    def score(self, pod: Pod, node: NodeView) -> int:
        return self._asked % 100


class Shared(Plugin):
    """Nondeterministic: instances count together."""

    name = "Shared"
    made = 0

    def __init__(self, args: Any = None, handle: Any = None) -> None:
        super().__init__(args, handle)
        Shared.made += 1
        self._number = Shared.made

    def score(self, pod: Pod, node: NodeView) -> int:
        return self._number % 100


class SetOrder(Plugin):
    """Nondeterministic from process to process: a set has no order."""

    name = "SetOrder"

    def score(self, pod: Pod, node: NodeView) -> int:
        words = {f"{node.name}-{word}" for word in ("one", "two", "three", "four")}
        return len(next(iter(words))) + (hash(node.name) % 7)


class Dicing(Plugin):
    """Chance of its own."""

    name = "Dicing"

    def score(self, pod: Pod, node: NodeView) -> int:
        return random.randrange(100)


class ReadsClock(Plugin):
    name = "ReadsClock"

    def filter(self, pod: Pod, node: NodeView) -> bool:
        return time.time() > 1.0


class ReadsDate(Plugin):
    name = "ReadsDate"

    def filter(self, pod: Pod, node: NodeView) -> bool:
        return datetime.now(UTC).year > 2000


class Sleeping(Plugin):
    name = "Sleeping"

    def filter(self, pod: Pod, node: NodeView) -> bool:
        time.sleep(0)
        return True


class NumpyChance(Plugin):
    """The global generator of numpy, without any effect on the answer."""

    name = "NumpyChance"

    def filter(self, pod: Pod, node: NodeView) -> bool:
        return bool(np.random.random() >= 0.0)  # noqa: NPY002 - the planted mistake


class StartsThread(Plugin):
    name = "StartsThread"

    def filter(self, pod: Pod, node: NodeView) -> bool:
        thread = threading.Thread(target=len, args=("",))
        thread.start()
        thread.join()
        return True


class ReadsFile(Plugin):
    name = "ReadsFile"

    def filter(self, pod: Pod, node: NodeView) -> bool:
        return Path(__file__).read_text() != ""


class UsesClient(Plugin):
    """Writes an event in the middle of a decision."""

    name = "UsesClient"

    def filter(self, pod: Pod, node: NodeView) -> bool:
        assert self.handle is not None
        self.handle.record(pod, type="Normal", reason="Seen", action="Looking", note="seen")
        return True


class Mutating(Plugin):
    """Marks the pods that it has seen."""

    name = "Mutating"

    def filter(self, pod: Pod, node: NodeView) -> bool:
        if pod.metadata.labels is not None:
            pod.metadata.labels["seen"] = "yes"
        return True


class FloatColumns(Plugin):
    """Wrong dtype: fractions, which are cut off without a word."""

    name = "FloatColumns"

    def score_columns(self, cycle: Cycle, rows: Any, out: Any) -> None:
        out[rows] = cycle.table.pod_count[rows] / 3.0


class FloatScore(Plugin):
    name = "FloatScore"

    def score(self, pod: Pod, node: NodeView) -> float:  # type: ignore[override]  # the planted mistake
        return 50.5


class FloatNormalize(Plugin):
    name = "FloatNormalize"

    def score(self, pod: Pod, node: NodeView) -> int:
        return node.pod_count

    def normalize(self, cycle: Cycle, scores: Any) -> Any:
        return np.minimum(scores / 2, 100.0)


class NotANumber(Plugin):
    """A fraction of nothing."""

    name = "NotANumber"

    def score(self, pod: Pod, node: NodeView) -> int:
        return node.pod_count

    def normalize(self, cycle: Cycle, scores: Any) -> Any:
        return np.full(len(scores), np.nan)


class Logging(Plugin):
    """Without a mistake: a log has its own time."""

    name = "Logging"

    def filter(self, pod: Pod, node: NodeView) -> bool:
        log.warning("Looked at a node")
        return True


class PodHint(GoodColumns):
    """A hint that forgets that pods change, too."""

    name = "PodHint"

    def events(self) -> list[EventHint]:
        def hint(pod: Pod, old: Any, new: Any) -> stowplan.Hint:
            if old is not None and new is not None:
                raise NotImplementedError("pods change?")
            return stowplan.Hint.QUEUE

        node = stowplan.ClusterEvent("Node", stowplan.ActionType.ALL)
        return [EventHint(node), EventHint(stowplan.ClusterEvent("Pod", node.action), hint)]


class HalfWritten(Plugin):
    """Writes only the rows that it likes."""

    name = "HalfWritten"

    def score_columns(self, cycle: Cycle, rows: Any, out: Any) -> None:
        chosen = np.arange(len(out))[rows]
        out[chosen[cycle.table.pod_count[chosen] > 0]] = 1


class UnknownVerdict(Plugin):
    name = "UnknownVerdict"
    verdicts = (stowplan.unschedulable("node(s) had bad luck"),)

    def filter_columns(self, cycle: Cycle, rows: Any, out: Any, overlay: Any) -> None:
        out[rows] = 2


class OutOfRange(Plugin):
    name = "OutOfRange"

    def score(self, pod: Pod, node: NodeView) -> int:
        return 101


class Raising(Plugin):
    """Takes for granted that every pod has annotations."""

    name = "Raising"

    def filter(self, pod: Pod, node: NodeView) -> bool:
        return pod.metadata.annotations["team"] != ""  # type: ignore[index]  # the planted mistake


class Disagreeing(GoodColumns):
    """Its column looks at another label than its per-node form."""

    name = "Disagreeing"

    def filter(self, pod: Pod, node: NodeView) -> Status | None:
        wanted = self._wanted(pod)
        if wanted is None or node.labels.get("tier") == wanted:
            return None
        return self.verdicts[0]

    def events(self) -> None:  # type: ignore[override]  # the planted mistake
        return None


class WrongSign(GoodColumns):
    """Reads a label of the pod that its signature does not tell."""

    name = "WrongSign"

    def sign(self, info: PodInfo) -> Hashable:
        return ()


class StaleColumns(Plugin):
    """Counts pods, and says that only nodes matter."""

    name = "StaleColumns"
    reads = Reads.NODE

    def sign(self, info: PodInfo) -> Hashable:
        return ()

    def score_columns(self, cycle: Cycle, rows: Any, out: Any) -> None:
        out[rows] = np.minimum(cycle.table.pod_count[rows], 100)


class StaleAnnotations(Plugin):
    """Looks at annotations of standing pods, which `Reads.POD_SPECS` leaves out."""

    name = "StaleAnnotations"
    reads = Reads.POD_SPECS
    verdicts = (stowplan.unschedulable("node(s) held a noisy pod"),)

    def sign(self, info: PodInfo) -> Hashable:
        return ()

    def is_unwanted(self, pod: Pod) -> bool:
        return (pod.metadata.annotations or {}).get("noisy") == "yes"

    def filter_columns(self, cycle: Cycle, rows: Any, out: Any, overlay: Any) -> None:
        table = cycle.table
        for row in np.arange(table.capacity)[rows].tolist():
            pods = table.pods[row].values() if row < len(table.pods) else ()
            out[row] = any(self.is_unwanted(info.pod) for info in pods)


class StaleStatus(StaleAnnotations):
    """Looks at the phase of standing pods, which `Reads.POD_SPECS` leaves out."""

    name = "StaleStatus"

    def is_unwanted(self, pod: Pod) -> bool:
        return pod.status.phase == "Running"


class FreshDetails(StaleAnnotations):
    """Without a mistake: `Reads.PODS` includes annotations."""

    name = "FreshDetails"
    reads = Reads.PODS


class Deaf(GoodColumns):
    """Does not hear of labels, which are all that it looks at."""

    name = "Deaf"

    def events(self) -> list[EventHint]:
        return [EventHint(stowplan.ClusterEvent("Node", stowplan.ActionType.DELETE))]


class BadHint(GoodColumns):
    name = "BadHint"

    def events(self) -> list[EventHint]:
        def hint(pod: Pod, old: Any, new: Any) -> Any:
            return old.metadata.labels != new.metadata.labels

        event = stowplan.ClusterEvent("Node", stowplan.ActionType.ALL)
        return [EventHint(event, hint)]


class Slow(Plugin):
    """Looks at all nodes for every node."""

    name = "Slow"

    def score(self, pod: Pod, node: NodeView, cycle: Cycle) -> int:
        most = max(int(count) for count in cycle.table.pod_count[cycle.table.live_rows])
        return 100 if node.pod_count == most else 0


class SlowColumns(Plugin):
    """A loop over rows where numpy would do."""

    name = "SlowColumns"

    def score_columns(self, cycle: Cycle, rows: Any, out: Any) -> None:
        for row in cycle.table.live_rows.tolist():
            count = 0
            for _ in range(3):
                count += 1
            out[row] = count


class LazyArguments(Plugin):
    """Divides by an argument that nobody looked at."""

    class Args(msgspec.Struct, frozen=True, rename="camel"):
        pods_per_point: int = 2

    name = "LazyArguments"

    def score(self, pod: Pod, node: NodeView) -> int:
        return int(min(100, abs(node.pod_count // self.args.pods_per_point)))


class WrongParameters(Plugin):
    name = "WrongParameters"

    def pre_score(self, cycle: Cycle) -> None:  # type: ignore[override]  # the planted mistake
        return None

    def score(self, pod: Pod, node: NodeView) -> int:
        return 0


class Misspelt(Plugin):
    name = "Misspelt"

    def preFilter(self, cycle: Cycle) -> None:  # noqa: N802 - the planted mistake
        return None

    def score(self, pod: Pod, node: NodeView) -> int:
        return 0


class Silent(Plugin):
    """Refuses without a reason."""

    name = "Silent"

    def filter(self, pod: Pod, node: NodeView) -> Status:
        return stowplan.unschedulable()
