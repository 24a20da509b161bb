"""`Fault`: which requests go wrong, how often, and in which way.

Built by tests and by `make chaos`, read by the proxy and by `relay`. A fault is aimed by verb and
resource, or by a pattern of the path; the first one that matches a request is the one that happens.
Effects can be combined where that makes sense, such as a delay and a status.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from stowplan.lab.faults.asked import Asked

ALWAYS: Final = 10**9


@dataclass
class Fault:
    """What happens to the next `times` requests that match."""

    #: Kubernetes' verb (`create`, `list`, `watch`, ...) or an HTTP method; `*` is every request.
    verb: str
    #: A regular expression, searched in the path.
    path: str = ""
    #: `pods`, `pods/binding`, `leases`; empty is every resource.
    resource: str = ""
    #: Only requests that have this in their query.
    query: str = ""
    times: int = 1
    #: The share of matching requests that it happens to, drawn from the proxy's seed.
    chance: float = 1.0

    # Before the request is forwarded

    #: Called with the path, in a thread.
    before: Callable[[str], object] | None = None
    delay_s: float = 0.0
    #: Answer with this status instead of forwarding.
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    #: Cut the connection without forwarding, or after the request took effect.
    reset: Literal["", "before", "after"] = ""
    #: Cut the connection, and forward the request so much later.
    late_s: float = 0.0

    # The response

    #: Send half of it, then cut the connection. In a watch: half of an event.
    half: bool = False
    #: Send it at this rate.
    bytes_per_s: int = 0
    #: A list: the oldest answer that the proxy has seen to this request.
    stale: bool = False
    #: A list: every item twice.
    duplicated: bool = False

    # A watch

    #: Deliver so many pieces of the stream first; a piece is an event, as API servers send them.
    after: int = 0
    #: Insert these bytes between events, and go on.
    garbage: bytes = b""
    #: Stay open and deliver nothing more.
    silent: bool = False
    #: End the stream in order.
    ends: bool = False
    #: Send the event of an expired resourceVersion (410), and end.
    expires: bool = False

    # What became of it

    seen: int = 0
    #: How many of them the API server has answered.
    answered: int = 0

    def happens_to(self, asked: Asked, dice: random.Random) -> bool:
        """Decide for one request; the dice are rolled only where chance has a say."""
        return (
            self.seen < self.times
            and self.verb in ("*", asked.verb, asked.method)
            and self.resource in ("", asked.resource)
            and re.search(self.path, asked.path) is not None
            and self.query in asked.query
            and (self.chance >= 1.0 or dice.random() < self.chance)
        )
