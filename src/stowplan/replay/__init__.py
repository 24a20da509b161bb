"""Decisions of other schedulers, judged again: `replay --follow` on a recording, `shadow` live.

`ordering` restores the order of etcd, `following` keeps the cluster and judges every binding, and
`moments` looks for the state on which a decision may have been made.
"""
