"""`!NOPAlgorithm`: takes every node and prefers none; for trying out the way to the service."""

from __future__ import annotations

from stowplan.extender.algorithm import Algorithm
from stowplan.extender.wire import ExtenderArgs, ExtenderFilterResult, HostPriority


class NOPAlgorithm(Algorithm):
    """Says yes to everything, with score 0."""

    def filter(self, extender_args: ExtenderArgs) -> ExtenderFilterResult:
        return ExtenderFilterResult(NodeNames=extender_args.NodeNames)

    def prioritize(self, extender_args: ExtenderArgs) -> list[HostPriority]:
        return [HostPriority(name, 0) for name in extender_args.NodeNames]
