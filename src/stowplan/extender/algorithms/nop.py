"""`!NOPAlgorithm`: takes every node and prefers none; for trying out the way to the service."""

from __future__ import annotations

from itertools import repeat

from stowplan.api.extender_protocol import ExtenderArgs, ExtenderFilterResult, HostPriority
from stowplan.extender.algorithm import Algorithm
from stowplan.extender.data import DataProvider


class NOPAlgorithm(Algorithm):
    """Says yes to everything, with score 0."""

    def __init__(self, data_provider: DataProvider | None = None) -> None:
        """The WCA scheduler's needed a provider; this one takes it and asks it nothing."""

    def __str__(self) -> str:
        return "NOP"

    def filter(self, extender_args: ExtenderArgs) -> ExtenderFilterResult:
        return ExtenderFilterResult(NodeNames=extender_args.NodeNames)

    def prioritize(self, extender_args: ExtenderArgs) -> list[HostPriority]:
        return list(map(HostPriority, extender_args.NodeNames, repeat(0)))
