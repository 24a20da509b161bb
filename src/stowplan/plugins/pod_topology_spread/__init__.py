"""PodTopologySpread: pods of one kind are spread over zones, nodes or any other domains."""

from stowplan.plugins.pod_topology_spread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread"]
