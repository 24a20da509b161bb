"""A filter in a few lines, for own_plugin.yaml."""

import stowplan


@stowplan.filter
def on_ssd(pod: stowplan.Pod, node: stowplan.NodeView) -> bool | str:
    """Pods that are labelled so run on an SSD only."""
    wants = (pod.metadata.labels or {}).get("disk") == "ssd"
    return not wants or node.labels.get("disk") == "ssd" or "the node has no SSD"
