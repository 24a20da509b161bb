"""Speaks Kubernetes and knows nothing of scheduling."""
