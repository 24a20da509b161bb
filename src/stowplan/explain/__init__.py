"""Why a pod is pending, or why it is where it is: `stowplan explain`.

    explanation   the answer as data, which `-o json` prints
    reasoning     builds it from a judgement of the pod on all nodes
    obstacles     what exactly one node lacks: node_details, pod_details, volume_details,
                  device_details; as data
                  in facts
    sources       the objects of a cluster or of a file; unread: claims that these lack
    summary       the cause in one sentence
    preemption    which pods would be evicted for it
    fixes         `--fix`: tries changes (change, pod_changes, node_changes, new_node, evictions,
                  volume_changes), with their commands
    retries       the cluster events that would bring the pod back
    text          the answer for people
    live          the answer from inside a running scheduler
    remote        asks a running scheduler over HTTPS
    recorded      attempts of the ledger, and their text

Nothing is decided here: `scheduler.cycle.judge` runs the plugins, and its `Decision` is read.
"""
