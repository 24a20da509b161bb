"""Cluster data for algorithms: the resources, and the interface of data providers.

Every algorithm that decides by data gets a `DataProvider`; the method names are the WCA
scheduler's, so that providers and algorithms written for it go on working. Invariants: results are
plain dicts that neither side modifies (their identity shows that a node has not changed), and calls
are fast, because every request makes them: a provider returns cached data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

NodeName: TypeAlias = str
AppName: TypeAlias = str
#: The name of a pod.
TaskName: TypeAlias = str


class Resource(StrEnum):
    """A dimension of nodes and apps. Memory is in GB, bandwidth in GB/s, as the queries have it."""

    CPU = "cpu"
    MEM = "mem"
    MEMBW_READ = "membw_read"
    MEMBW_WRITE = "membw_write"
    WSS = "wss"
    MEMBW = "membw"
    #: Reads and writes as one number: reads + writes times what a write costs.
    MEMBW_FLAT = "membw_flat"

    def __repr__(self) -> str:
        return self.value


#: The name that the WCA scheduler has for it.
ResourceType = Resource


class NodeType(StrEnum):
    """The memory of a node."""

    PMEM = "pmem"
    DRAM = "dram"
    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return self.value


Resources: TypeAlias = dict[Resource, float]
#: The pods of each app on a node.
Apps: TypeAlias = dict[AppName, list[TaskName]]
AppsOnNode: TypeAlias = dict[NodeName, Apps]
AppsCount: TypeAlias = dict[AppName, int]


class DataMissingException(Exception):
    """A number that an algorithm cannot do without is not known."""


class DataProvider(ABC):
    """What is known of nodes and apps. What is not known is left out of the answers."""

    def require(self, resources: Iterable[Resource]) -> None:  # noqa: B027 - most know all
        """Told by an algorithm which resources it will ask for, when it is made; a ConfigError
        says what can never be known."""

    @abstractmethod
    def get_nodes_capacities(self, resources: Iterable[Resource]) -> Mapping[NodeName, Resources]:
        """How much each node has of `resources`; CPU and memory come first."""

    @abstractmethod
    def get_apps_counts(self) -> tuple[Mapping[NodeName, Apps], Mapping[AppName, int]]:
        """The pods of each app on each node, and how many pods of each app have no node yet."""

    @abstractmethod
    def get_apps_requested_resources(
        self, resources: Iterable[Resource]
    ) -> Mapping[AppName, Resources]:
        """How much a pod of each app needs of `resources`."""

    @abstractmethod
    def get_dram_hit_ratio(self) -> Mapping[NodeName, float]:
        """Which part of memory accesses each node serves from DRAM, from 0 to 1."""

    @abstractmethod
    def get_pmem_nodes(self) -> Collection[NodeName]:
        """The nodes whose memory is persistent memory in memory mode."""


class ScoreDataProvider(DataProvider):
    """A provider that also knows what suits which kind of node."""

    @abstractmethod
    def get_apps_profile(self) -> Mapping[AppName, float]:
        """How badly each app would suit persistent memory: the lower the better."""

    @abstractmethod
    def get_nodes_type(self) -> Mapping[NodeName, NodeType | str]:
        """The kind of memory of each node."""


#: CPU and memory, what every algorithm weighs unless told otherwise.
DEFAULT_DIMENSIONS: Sequence[Resource] = (Resource.CPU, Resource.MEM)
