"""VolumeBinding: a pod goes only where its volumes are, can be, or can be made."""

from stowplan.plugins.volume_binding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
