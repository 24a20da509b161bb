"""Makes room for important pods by evicting less important ones."""

from stowplan.plugins.default_preemption.plugin import DefaultPreemption

__all__ = ["DefaultPreemption"]
