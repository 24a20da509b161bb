"""The ledger: what every scheduling attempt decided and why, in memory, within a byte budget.

The engine calls `decided` after each decision and `ended` when the attempt is over; readers ask for
the attempts of a pod. When the budget is spent the oldest attempts are dropped. Reasons and
scores are encoded when the decision is made, because it is valid only until the next one.

What costs more than a microsecond or two (scores of the best nodes, refusals of a pod that found a
node, names of refused nodes) is kept only while it takes less than `DETAIL_SHARE` of the time, and
of few attempts while many pods wait: always in a quiet cluster, sometimes in a rush. A record says
so if something was left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from stowplan.clock import Clock
from stowplan.loader.json_text import load_json
from stowplan.logs import get_logger, kv
from stowplan.scheduler.ledger_details import DetailsReader, quantity
from stowplan.scheduler.ledger_records import BINDING, DEFAULT_FILE_SIZE, Attempt, Details

if TYPE_CHECKING:
    from stowplan.cluster.pod_info import Request
    from stowplan.framework.profile import Profile
    from stowplan.queue.pod import QueuedPod
    from stowplan.scheduler.decision import Decision

log = get_logger(__name__)

#: Bytes that the ledger takes at most, unless a flag says otherwise.
DEFAULT_BUDGET: Final = 16 * 1024 * 1024
#: The share of the time that scores, refusals and node names may take.
DETAIL_SHARE: Final = 0.003
#: In a rush one attempt in so many has them. Time alone would not do: a process that shares its
#: CPUs with others sees more of it pass than it gets.
_DETAILED_IN_RUSH: Final = 64
#: How much of it can be saved up, in seconds of quiet.
_SAVED_S: Final = 1.0
#: What an attempt takes beside the text in it: objects, its place in the queue and in the index.
ENTRY_BYTES: Final = 1_000
#: Characters of a message that are kept.
_MOST_MESSAGE: Final = 4_000

_EMPTY: Final = b"{}"
_NO_REASON: Final = ("", "")

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class LedgerOptions:
    """How much of the attempts is kept, and where."""

    #: Bytes in memory; 0: nothing is kept, not even in the file.
    memory: int = DEFAULT_BUDGET
    #: A SQLite file; "" for none.
    file: str = ""
    file_size: int = DEFAULT_FILE_SIZE


class Entry(msgspec.Struct, gc=False):
    """An attempt as it is kept: plain fields, and JSON of what only some attempts have.

    No field refers to what refers to it, so the garbage collector can leave it alone.
    """

    #: Wall time of the decision.
    time: float
    key: str
    uid: str
    attempt: int
    profile: str
    node: str
    #: Seconds in the queue.
    waited: float
    #: Pairs of resource and amount, shared with all pods of a template.
    request: Request
    priority: int
    evaluated_nodes: int
    feasible_nodes: int
    #: By extension point; None: there was no time for details.
    durations: dict[str, float] | None
    #: `Details` without the fields above.
    decision: bytes
    size: int
    result: str = BINDING
    message: str = ""
    seconds: float = 0.0
    retried_by: tuple[str, ...] = ()
    backoff_until: float | None = None
    retry_by: float | None = None

    def details(self) -> Details:
        """Everything about the decision."""
        found = load_json(self.decision, Details)
        found.evaluated_nodes = self.evaluated_nodes
        found.feasible_nodes = self.feasible_nodes
        found.requests = {name: quantity(name, amount) for name, amount in self.request}
        found.priority = self.priority
        found.waited = self.waited
        found.durations = self.durations or {}
        found.is_shortened |= self.durations is None and self.evaluated_nodes > 0
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
        self._details = DetailsReader()
        #: Decisions while many pods waited.
        self._rushed = 0
        #: Monotonic time from which on costly details may be kept again.
        self._details_from = -_SAVED_S
        self.size = 0
        self.dropped = 0
        self.on_ended: Callable[[Entry], None] | None = None

    # Writing

    def has_time(self, now: float, *, is_rush: bool) -> bool:
        """Whether a decision that begins now is to be kept with all details."""
        if is_rush:
            self._rushed += 1
            if self._rushed % _DETAILED_IN_RUSH:
                return False
        return now >= self._details_from

    def decided(
        self,
        queued: QueuedPod,
        decision: Decision,
        profile: Profile,
        durations: dict[str, float] | None,
        waited: float,
    ) -> None:
        """A decision is made; neither the table nor the scores have changed since.

        `durations` are seconds by extension point; None: there is no time for details. `waited`
        are the seconds in the queue.
        """
        node, encoded, info = decision.node, _EMPTY, decision.cycle.info
        queued.reason = _NO_REASON
        if durations is not None or node is None:
            encoded = self._detailed(queued, decision, profile, has_time=durations is not None)
        self._add(
            queued,
            Entry(
                self._clock.time(),
                queued.key,
                queued.uid,
                queued.attempts,
                queued.scheduler_name,
                node or "",
                waited,
                info.request,
                info.priority,
                decision.evaluated_nodes,
                decision.feasible_nodes,
                durations,
                encoded,
                ENTRY_BYTES if encoded is _EMPTY else ENTRY_BYTES + len(encoded),
            ),
        )

    def _detailed(
        self, queued: QueuedPod, decision: Decision, profile: Profile, *, has_time: bool
    ) -> bytes:
        began = self._clock.monotonic()
        try:
            details = self._details.read(decision, profile, has_time=has_time)
            if details.reasons and decision.node is None:
                queued.reason = details.reasons[0].plugin, details.reasons[0].reason
            return _encode(details)
        except Exception:
            # A plugin's odd answer, such as half a surrogate pair, must not fail the attempt.
            log.exception("Cannot record a decision", extra=kv(pod=queued.key))
            return _EMPTY
        finally:
            if has_time:
                self._spent(began)

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
            entry = self._add(queued, _undecided(queued, self._clock.time()))
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

    def _add(self, queued: QueuedPod, entry: Entry) -> Entry:
        queued.record = entry
        self._entries.append(entry)
        self.size += entry.size
        if self.size > self._budget:
            self._trim()
        return entry

    def _spent(self, began: float) -> None:
        now = self._clock.monotonic()
        start = max(self._details_from, now - _SAVED_S)
        self._details_from = start + (now - began) / DETAIL_SHARE

    def discount(self, seconds: float) -> None:
        """Let time pass that earns no details: a measurement's pauses."""
        self._details_from += seconds

    def _trim(self) -> None:
        while self.size > self._budget and self._entries:
            oldest = self._entries.popleft()
            self.size -= oldest.size
            oldest.size = 0
            self.dropped += 1

    # Reading. There is no index by pod: to keep one would cost more than all the rest.

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def of_pod(self, key: str) -> list[Entry]:
        """The attempts of the pods of that namespace and name, oldest first."""
        return [entry for entry in self._entries if entry.key == key]

    def latest(self, keys: Collection[str]) -> dict[str, Entry]:
        """The latest attempts of some pods, by namespace and name."""
        return {entry.key: entry for entry in self._entries if entry.key in keys}


def _undecided(queued: QueuedPod, time: float) -> Entry:
    """An attempt that failed before a decision was made."""
    key, uid, number, profile = queued.key, queued.uid, queued.attempts, queued.scheduler_name
    return Entry(time, key, uid, number, profile, "", 0.0, (), 0, 0, 0, None, _EMPTY, ENTRY_BYTES)
