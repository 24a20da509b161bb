"""Compares decisions of any scheduler with a configuration: `replay --follow`, and `shadow` live.

`ordering` restores the order of writes in etcd, `following` keeps the state of the cluster and
evaluates every binding, and `moments` searches for the state on which a decision was made.
"""
