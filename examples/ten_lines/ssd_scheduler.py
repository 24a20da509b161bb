import stowplan


@stowplan.filter
def on_ssd(pod: stowplan.Pod, node: stowplan.NodeView) -> bool | str:
    return node.labels.get("disk") == "ssd" or "node(s) had no SSD"


@stowplan.score
def emptiest(pod: stowplan.Pod, node: stowplan.NodeView) -> int:
    return max(0, 100 - node.pod_count)


stowplan.run(on_ssd, emptiest, scheduler_name="ssd-scheduler")
