"""NodeResourcesFit: a node must have room for the pod, and scores by how full it would be."""

from stowplan.plugins.node_resources_fit.plugin import NodeResourcesFit

__all__ = ["NodeResourcesFit"]
