"""What a plugin may reach beyond its arguments: the handle it is constructed with.

One handle serves all plugins of one profile. The parts that do I/O (`client`, `record`) are
for the binding points only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from stowplan.api.objects import Pod
from stowplan.api.verbs import ApiVerbs, NoApi
from stowplan.clock import Clock, SystemClock
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.table import NodeTable
from stowplan.framework.preempting import Preempting
from stowplan.framework.waiting import WaitingPods


class Wakeup(Protocol):
    """An event that a binding point can wait for."""

    def ring(self) -> None:
        """End the current wait, or the next one if there is none."""

    async def wait(self, timeout_s: float) -> bool:
        """Wait for `ring` or the timeout. False: the scheduler stops, and the caller must too."""


class RecordEvent(Protocol):
    """Report an event about a pod, in the name of the profile; returns at once."""

    def __call__(
        self,
        regarding: Pod,
        *,
        type: str,  # noqa: A002 - the API's name
        reason: str,
        action: str,
        note: str,
        related: Pod | None = ...,
    ) -> None: ...


def _no_wakeup() -> Wakeup:
    raise RuntimeError("this handle has no wakeup: only a running scheduler can wait")


def _ignore(*_: Any, **__: Any) -> None:
    """Do nothing: the default callback in tests and simulations."""


@dataclass(slots=True)
class Handle:
    """The scheduler as plugins see it."""

    profile: str = "default-scheduler"
    table: NodeTable = field(default_factory=NodeTable)
    #: Services, claims and so on, of the kinds that the plugin `looks_up`.
    catalog: Catalog = field(default_factory=Catalog)
    clock: Clock = field(default_factory=SystemClock)
    #: The process's random source; seeded, so that a run can be repeated.
    rng: Random = field(default_factory=Random)
    #: Pods that Permit is holding back.
    waiting: WaitingPods = field(default_factory=WaitingPods)
    #: Pods for which others are being evicted.
    preempting: Preempting = field(default_factory=Preempting)
    #: `await client.bind(namespace, name, uid, node)` and the rest of the API client.
    client: ApiVerbs = field(default_factory=NoApi)
    #: Move pods to the active queue at once, backoff or not.
    activate: Callable[[Iterable[Pod]], None] = _ignore
    #: Run a function on the scheduler's loop after some seconds.
    call_later: Callable[[float, Callable[[], None]], Any] = _ignore
    #: A new wakeup, on which a binding point can wait without blocking others.
    wakeup: Callable[[], Wakeup] = _no_wakeup
    #: Run requests beside the scheduling loop: background(make_coroutine, name).
    background: Callable[[Callable[[], Awaitable[None]], str], None] = _ignore
    #: Add to a counter or observe in a histogram of the scheduler: observe(name, labels, value).
    observe: Callable[[str, tuple[str, ...], float], None] = _ignore
    #: Write an Event: record(pod, type=, reason=, action=, note=).
    record: RecordEvent = _ignore
