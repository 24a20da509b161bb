"""StaticPlacement: pods go to the nodes that are labelled for them."""

from stowplan.plugins.static_placement.plugin import StaticPlacement

__all__ = ["StaticPlacement"]
