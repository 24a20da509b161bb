"""The ledger: what every scheduling attempt decided and why, in memory, within a byte budget.

The engine calls `decided` after each decision and `ended` when the attempt is over; readers ask for
the attempts of a pod. When the budget is spent the oldest attempts are dropped. Reasons and
scores are encoded when the decision is made, because it is valid only until the next one.

What costs more than a microsecond or two (scores of the best nodes, names of refused nodes) is kept
only while it takes less than `DETAIL_SHARE` of the time: always in a quiet cluster, sometimes in a
rush. A record says so if something was left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from stowplan.clock import Clock
from stowplan.logs import get_logger, kv
from stowplan.scheduler.ledger_details import Details, DetailsReader, Recorded

if TYPE_CHECKING:  # readers of attempts need none of the scheduler's
    from stowplan.queue.pod import QueuedPod
    from stowplan.scheduler.decision import Decision

log = get_logger(__name__)

#: Bytes that the ledger takes at most, unless a flag says otherwise.
DEFAULT_BUDGET: Final = 16 * 1024 * 1024
DEFAULT_FILE_SIZE: Final = 256 * 1024 * 1024
#: The share of the time that scores and node names may take.
DETAIL_SHARE: Final = 0.003
#: How much of it can be saved up, in seconds of quiet.
_SAVED_S: Final = 1.0
#: What an attempt takes beside the text in it: objects, its place in the queue and in the index.
ENTRY_BYTES: Final = 1_000
#: Characters of a message that are kept.
_MOST_MESSAGE: Final = 4_000

#: The result of an attempt that is not over: the pod has a node, and waits for permission or
#: is being bound.
BINDING: Final = "binding"

_EMPTY: Final = b"{}"
_NO_REASON: Final = ("", "")
_NOTHING: Final[Mapping[str, float]] = {}

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class LedgerOptions:
    """How much of the attempts is kept, and where."""

    #: Bytes in memory; 0: nothing is kept, not even in the file.
    memory: int = DEFAULT_BUDGET
    #: A SQLite file; "" for none.
    file: str = ""
    file_size: int = DEFAULT_FILE_SIZE


class Attempt(Recorded):
    """One attempt, as readers get it."""

    #: Wall time of the decision.
    time: float
    pod: str
    uid: str
    attempt: int
    profile: str
    #: scheduled, unschedulable, error, or binding while it goes on.
    result: str
    #: The chosen node.
    node: str = ""
    message: str = ""
    #: From the beginning of the attempt to its end.
    seconds: float = 0.0
    #: Plugins whose cluster events bring the pod back; empty after an error.
    retried_by: tuple[str, ...] = ()
    #: Wall times: the pod is not tried before the first unless the queue is empty, and is tried
    #: by the second although nothing happens.
    backoff_until: float | None = None
    retry_by: float | None = None
    details: Details | None = None


class Entry:
    """An attempt as it is kept: plain fields, and JSON of what only some attempts have."""

    __slots__ = (
        "attempt", "backoff_until", "decision", "durations", "evaluated_nodes", "feasible_nodes",
        "is_shortened", "key", "message", "node", "profile", "result", "retried_by", "retry_by",
        "seconds", "size", "time", "uid",
    )  # fmt: skip

    def __init__(self, queued: QueuedPod, time: float, node: str, decision: bytes) -> None:
        self.time = time
        self.key = queued.key
        self.uid = queued.uid
        self.attempt = queued.attempts
        self.profile = queued.scheduler_name
        self.result = BINDING
        self.node = node
        self.message = ""
        self.seconds = 0.0
        self.retried_by: tuple[str, ...] = ()
        self.backoff_until: float | None = None
        self.retry_by: float | None = None
        self.evaluated_nodes = 0
        self.feasible_nodes = 0
        self.durations: Mapping[str, float] = _NOTHING
        self.is_shortened = False
        #: `Details` without the fields above.
        self.decision = decision
        self.size = ENTRY_BYTES + len(decision)

    def details(self) -> Details:
        """Everything about the decision."""
        found = msgspec.json.decode(self.decision, type=Details)
        found.evaluated_nodes = self.evaluated_nodes
        found.feasible_nodes = self.feasible_nodes
        found.durations = self.durations
        found.is_shortened |= self.is_shortened
        return found

    def read(self, *, is_whole: bool) -> Attempt:
        """The attempt; without its details unless it is wanted whole."""
        return Attempt(
            self.time,
            self.key,
            self.uid,
            self.attempt,
            self.profile,
            self.result,
            self.node,
            self.message,
            self.seconds,
            self.retried_by,
            self.backoff_until,
            self.retry_by,
            self.details() if is_whole else None,
        )


class Ledger:
    """Attempts, oldest first. `on_ended` is called with every attempt that is over."""

    def __init__(self, clock: Clock, budget: int = DEFAULT_BUDGET) -> None:
        self._clock = clock
        self._budget = budget
        self._entries: deque[Entry] = deque()
        #: Most pods have one attempt, and no list.
        self._by_pod: dict[str, Entry | list[Entry]] = {}
        self._details = DetailsReader()
        #: Monotonic time from which on costly details may be kept again.
        self._details_from = -_SAVED_S
        self.size = 0
        self.dropped = 0
        self.on_ended: Callable[[Entry], None] | None = None

    # Writing

    def has_time(self, now: float) -> bool:
        """Whether a decision that begins now is to be kept with all details."""
        return now >= self._details_from

    def decided(
        self, queued: QueuedPod, decision: Decision, durations: Mapping[str, float] | None
    ) -> None:
        """A decision is made; neither the table nor the scores have changed since.

        `durations` are seconds by extension point; None: there is no time for details.
        """
        queued.reason = _NO_REASON
        if durations is None and decision.node is not None:
            entry = self._add(queued, decision.node, _EMPTY)
            entry.is_shortened = True
        else:
            entry = self._add(
                queued, decision.node or "", self._detailed(queued, decision, durations)
            )
            entry.durations = durations or _NOTHING
            entry.is_shortened = durations is None
        entry.evaluated_nodes = decision.evaluated_nodes
        entry.feasible_nodes = decision.feasible_nodes

    def _detailed(
        self, queued: QueuedPod, decision: Decision, durations: Mapping[str, float] | None
    ) -> bytes:
        began = self._clock.monotonic()
        try:
            return self._encoded(queued, decision, has_time=durations is not None)
        except Exception:
            # A plugin's odd answer, such as half a surrogate pair, must not fail the attempt.
            log.exception("Cannot record a decision", extra=kv(pod=queued.key))
            return _EMPTY
        finally:
            if durations is not None:
                self._spent(began)

    def _encoded(self, queued: QueuedPod, decision: Decision, *, has_time: bool) -> bytes:
        details = Details()
        if decision.node is not None:
            if decision.sheet is None:
                return _EMPTY  # a single node was feasible, and not scored
            details.scores = self._details.scores(decision)
        else:
            self._details.add_reasons(details, decision, has_names=has_time)
            if details.reasons:
                queued.reason = details.reasons[0].plugin, details.reasons[0].reason
        return _encode(details)

    def ended(
        self,
        queued: QueuedPod,
        result: str,
        seconds: float,
        message: str = "",
        *,
        backoff_until: float | None = None,
        retry_by: float | None = None,
    ) -> None:
        """The attempt is over. Times are monotonic; None: the pod does not come back by itself."""
        entry: Entry | None = queued.record
        if entry is None:
            if result == "scheduled":
                return  # switched on in the middle of the attempt
            entry = self._add(queued, "", _EMPTY)
        queued.record = None
        entry.result = result
        entry.seconds = seconds
        if message:
            entry.message = message[:_MOST_MESSAGE]
            entry.retried_by = tuple(sorted(queued.rejectors))
            offset = self._clock.time() - self._clock.monotonic()
            if backoff_until is not None:
                entry.backoff_until = backoff_until + offset
            if retry_by is not None:
                entry.retry_by = retry_by + offset
            grown = 4 * len(entry.message) + sum(map(len, entry.retried_by))
            if entry.size:  # else it was dropped while it went on
                entry.size += grown
                self.size += grown
                self._trim()
        if self.on_ended is not None:
            self.on_ended(entry)

    def _add(self, queued: QueuedPod, node: str, decision: bytes) -> Entry:
        entry = queued.record = Entry(queued, self._clock.time(), node, decision)
        self._entries.append(entry)
        known = self._by_pod.setdefault(entry.key, entry)
        if known is not entry:
            if isinstance(known, Entry):
                self._by_pod[entry.key] = [known, entry]
            else:
                known.append(entry)
        self.size += entry.size
        if self.size > self._budget:
            self._trim()
        return entry

    def _spent(self, began: float) -> None:
        now = self._clock.monotonic()
        start = max(self._details_from, now - _SAVED_S)
        self._details_from = start + (now - began) / DETAIL_SHARE

    def _trim(self) -> None:
        while self.size > self._budget and self._entries:
            oldest = self._entries.popleft()
            self.size -= oldest.size
            oldest.size = 0
            self.dropped += 1
            of_pod = self._by_pod[oldest.key]
            if isinstance(of_pod, Entry) or len(of_pod) == 1:
                del self._by_pod[oldest.key]
            else:
                del of_pod[0]

    # Reading

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def of_pod(self, key: str) -> list[Entry]:
        """The attempts of the pods of that namespace and name, oldest first."""
        known = self._by_pod.get(key, [])
        return [known] if isinstance(known, Entry) else list(known)

    def latest(self, key: str) -> Entry | None:
        """The latest attempt of a pod."""
        known = self._by_pod.get(key)
        return known[-1] if isinstance(known, list) else known
