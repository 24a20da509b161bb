"""Fill the fullest node first, so that others stay empty and can be switched off."""

import stowplan


class FullestFirst(stowplan.Plugin):
    name = "FullestFirst"

    def score(self, pod: stowplan.Pod, node: stowplan.NodeView) -> int:
        cpu = node.allocatable("cpu")
        return 100 * min(node.requested("cpu"), cpu) // cpu if cpu else 0
