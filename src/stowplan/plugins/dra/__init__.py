"""DynamicResources: devices by claim, allocated as kube-scheduler 1.36 allocates them.

| module | |
|---|---|
| `plugin` | the extension points |
| `facts`, `allocated` | claims, slices and classes, and which devices are taken |
| `pod_claims`, `hints` | a pod's claims, and which events may help it |
| `device_filter`, `claim_columns`, `match_sets` | verdicts, kept for claims of one shape |
| `node_search` | a pod's devices by node, found in turns |
| `allocator` | the search for devices, in upstream's order |
| `taint_rules` | slices with the taints of DeviceTaintRules |
| `pools` | which slices make up the pools that a node can use |
| `requests` | claims read into requests; what a request needs of a device |
| `capacity`, `counters`, `constraints` | what limits the choice of devices |
| `results`, `prioritized` | what an allocation says, and its score |
| `device_binding`, `claim_writes` | Reserve, PreBind and what is written into claims |
| `extended`, `extended_claims` | extended resources that devices stand for, as a claim |
| `class_totals` | devices of a class by node, for scores |
| `sole_holder` | no device, capacity or counter given away twice, beside another scheduler |
| `binding_conditions` | devices that must be prepared before a pod is bound |
"""

from stowplan.plugins.dra.plugin import DynamicResources, WithTaintRules

__all__ = ["DynamicResources", "WithTaintRules"]
