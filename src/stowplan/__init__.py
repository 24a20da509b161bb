"""Stowplan: a Kubernetes scheduler and scheduling framework."""

__version__ = "0.1.0"
