"""What the pure cycle asks of extenders. It yields a request; the loop sends it the answer.

Configurations with extenders are refused until the extender client exists; the cycle is ready.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from stowplan.api.objects import Pod


class Extender(Protocol):
    """A configured extender, as far as the cycle needs to know it."""

    name: str
    filters: bool
    prioritizes: bool

    def is_interested(self, pod: Pod) -> bool: ...


@dataclass(frozen=True, slots=True)
class FilterRequest:
    extender: Extender
    pod: Pod
    nodes: Sequence[str]


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """Names that stay, and why others do not. A name in neither stays out without a word."""

    nodes: frozenset[str]
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PrioritizeRequest:
    extender: Extender
    pod: Pod
    nodes: Sequence[str]


@dataclass(frozen=True, slots=True)
class PrioritizeAnswer:
    """Scores to add, already on the scale of node scores times the extender's weight."""

    scores: Mapping[str, int] = field(default_factory=dict)


Request: TypeAlias = FilterRequest | PrioritizeRequest
Answer: TypeAlias = FilterAnswer | PrioritizeAnswer
