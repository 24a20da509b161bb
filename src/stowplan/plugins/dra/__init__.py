"""DynamicResources: devices by claim, allocated as kube-scheduler 1.36 allocates them.

| module | |
|---|---|
| `pools` | which slices make up the pools that a node can use |
| `requests` | claims read into requests; what a request needs of a device |
| `capacity`, `counters`, `constraints` | what limits the choice of devices |
| `allocator` | the search for devices, in upstream's order |
"""
