"""What a plugin says: kube-scheduler's status codes as values.

Expected failure is a value, never an exception. `None` from a plugin means success. The queue and
preemption act on the code: an UNSCHEDULABLE node may become free by evicting pods, an UNRESOLVABLE
one not; PENDING pods come back without backoff.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import chain
from typing import Final, overload


class Code(IntEnum):
    """Upstream's codes, in upstream's order."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def label(self) -> str:
        """Upstream's spelling, as metrics and messages show it."""
        return LABELS[self]


#: `Code.label` without a call, for the hot path.
LABELS: Final = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}
_REJECTED = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


class SharedReasons(Sequence[str]):
    """A node's own reasons, followed by those that it has in common with many nodes.

    A pod can give thousands of nodes thousands of reasons each; the common ones are one tuple.
    """

    __slots__ = ("common", "own")

    def __init__(self, own: tuple[str, ...], common: tuple[str, ...]) -> None:
        self.own = own
        self.common = common

    def __len__(self) -> int:
        return len(self.own) + len(self.common)

    def __iter__(self) -> Iterator[str]:
        return chain(self.own, self.common)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...
    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        return (*self.own, *self.common)[place]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SharedReasons) and self.common is other.common:
            return self.own == other.own
        return isinstance(other, tuple | SharedReasons) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


@dataclass(frozen=True, slots=True)
class Status:
    """A code, the reasons for it, and the plugin that said so (filled in by the framework)."""

    code: Code
    reasons: Sequence[str] = ()
    plugin: str = ""

    @property
    def is_success(self) -> bool:
        return self.code is Code.SUCCESS

    @property
    def is_skip(self) -> bool:
        return self.code is Code.SKIP

    @property
    def is_wait(self) -> bool:
        return self.code is Code.WAIT

    @property
    def is_rejected(self) -> bool:
        """The pod cannot go there (now); not a malfunction."""
        return self.code in _REJECTED

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """The same status with a plugin's name on it, unless it carries one."""
        return self if self.plugin else replace(self, plugin=plugin)


SUCCESS = Status(Code.SUCCESS)
SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """The pod does not fit here now; preempting others might help."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """The pod does not fit here, and evicting other pods would not change that."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def error(*reasons: str) -> Status:
    """Something went wrong; the pod is tried again after the error backoff."""
    return Status(Code.ERROR, reasons)


def pending(*reasons: str) -> Status:
    """The pod waits for something outside; it comes back without backoff."""
    return Status(Code.PENDING, reasons)


def wait(*reasons: str) -> Status:
    """From Permit: hold the pod until it is allowed, rejected or timed out."""
    return Status(Code.WAIT, reasons)


def fit_error(total_nodes: int, reasons: Mapping[str, int]) -> str:
    """How many nodes there are and how many of them gave each reason, sorted as text."""
    text = f"0/{total_nodes} nodes are available:"
    parts = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"{text} {', '.join(parts)}." if parts else text
