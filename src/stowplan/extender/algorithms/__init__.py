"""The algorithms that come with Stowplan, one module each."""

from stowplan.extender.algorithms.apps import BaseAlgorithm, QueriedData, RescheduleResult
from stowplan.extender.algorithms.bar import BAR
from stowplan.extender.algorithms.dram_hit_ratio import DramHitRatioProvision
from stowplan.extender.algorithms.fit import Fit
from stowplan.extender.algorithms.hier_bar import HierBAR
from stowplan.extender.algorithms.least_used import LeastUsed
from stowplan.extender.algorithms.least_used_bar import LeastUsedBAR
from stowplan.extender.algorithms.nop import NOPAlgorithm
from stowplan.extender.algorithms.score import Score
from stowplan.extender.algorithms.static_assigner import StaticAssigner

__all__ = [
    "BAR",
    "BaseAlgorithm",
    "DramHitRatioProvision",
    "Fit",
    "HierBAR",
    "LeastUsed",
    "LeastUsedBAR",
    "NOPAlgorithm",
    "QueriedData",
    "RescheduleResult",
    "Score",
    "StaticAssigner",
]
