"""Recordings of a cluster: what `stowplan record` writes and `replay`, `compare` and `shadow` read.

A recording is gzipped JSON lines, which `zcat` and `jq` can read:

    {"recording": "stowplan/v1", "startedAt": "...", "kinds": [...], ...}  a header
    {"at": 0.1, "type": "ADDED", "kind": "Node", "object": {...}}          a snapshot of the cluster
    {"at": 0.4, "type": "SYNCED"}                                          the end of the snapshot
    {"at": 9.3, "type": "MODIFIED", "kind": "Pod", "object": {...}}        a change
    {"at": 9.3, "type": "DECISION", "object": {...}}                       an attempt of a scheduler
    {"at": 70.0, "type": "GAP", "kind": "Pod", "note": "..."}              changes may be missing

| module | |
|---|---|
| `gzip_lines` | lines that stay readable after a kill, and around damage |
| `entries` | the types of lines |
| `decisions` | attempts of schedulers, from events and from our ledger |
| `scrub` | which fields of an object are kept |
| `hashing` | keyed hashes of names |
| `hash_key` | the secret of these hashes, from a file |
| `files` | one file, or a folder of files rotated by size and time |
| `watching` | what happens in a live cluster |
| `recorder` | records it |
| `folder` | names of the files in a folder |
| `probe` | what a file or folder is, from its beginning |
| `session_times` | times across the sessions of a recording |
| `reading` | reads a file or a folder as entries, and reports gaps |
"""
