"""An in-memory Kubernetes API server for demos, simulation and tests."""
