"""Builders and fixtures for tests of schedulers and plugins."""

from stowplan.testing.builders import as_manifest, node, pod

__all__ = ["as_manifest", "node", "pod"]
