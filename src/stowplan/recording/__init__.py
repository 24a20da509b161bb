"""Recordings of a cluster: what `stowplan record` writes and `replay`, `compare` and `shadow` read.

A recording is lines of JSON, gzipped, so that `zcat` and `jq` read it, too:

    {"recording": "stowplan/v1", "startedAt": "...", "kinds": [...], ...}      a header
    {"at": 0.1, "type": "ADDED", "kind": "Node", "object": {...}}              the cluster as it was
    {"at": 0.4, "type": "SYNCED"}                                              it is complete
    {"at": 9.3, "type": "MODIFIED", "kind": "Pod", "object": {...}}            what happened
    {"at": 70.0, "type": "GAP", "kind": "Pod", "note": "..."}                  what may be missing

| module | |
|---|---|
| `gzip_lines` | lines that can be read after a kill and around damage |
| `entries` | what a line says |
| `scrub` | what of an object is kept, and names hashed |
| `files` | one file, or a folder of files rotated by size and time |
| `recorder` | a live cluster into a file |
| `reading` | a file into entries, with what is wrong with it |
"""
