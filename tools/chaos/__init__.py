"""`make chaos`: faults of every kind on a real control plane with two schedulers, then an audit."""
