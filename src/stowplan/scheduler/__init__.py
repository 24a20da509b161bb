"""Decides (cycle, pure) and acts (binding, loop)."""
