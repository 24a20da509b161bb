"""ImageLocality: prefers nodes that have the pod's images already.

Every image of the pod that a node has counts with its size, scaled by the share of nodes that have
it, so that a rare image does not draw all pods to one node. The sum becomes 0 at 23 MiB or less and
100 at 1000 MiB a container. Image volumes add to the sum and not to the number of containers.

The score of a node depends on how many others have an image and on how many nodes there are, so
kept columns serve only until either changes (`surroundings`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator

import numpy as np

from stowplan.api.objects import Pod
from stowplan.cluster.images import HeldImage
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import Int64Array, NodeTable
from stowplan.cluster.views import NodeView
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet, takes_slices
from stowplan.framework.integers import MAX_NODE_SCORE, percent_of
from stowplan.framework.plugin import Plugin, Reads

_MIB = 1024 * 1024
_LEAST = 23 * _MIB
_MOST_PER_CONTAINER = 1000 * _MIB


class ImageLocality(Plugin):
    name = "ImageLocality"
    reads = Reads.NODE

    def sign(self, info: PodInfo) -> Hashable:
        spec = info.pod.spec
        volumes = [volume for volume in spec.volumes or () if volume.image is not None]
        if volumes or spec.init_containers:
            return (tuple(_image_names(info.pod)), _most(info.pod))
        return tuple([container.image for container in spec.containers or ()])

    def surroundings(self, cycle: Cycle) -> Hashable:
        """Nodes without any image of the pod score 0, whatever else is there."""
        table = cycle.table
        if not len(table.images) or not any(True for _ in _held_images(cycle.pod, table)):
            return None
        return (table.images.version, len(table))

    @takes_slices
    def score_columns(self, cycle: Cycle, rows: RowSet, out: Int64Array) -> None:
        table = cycle.table
        held = Counter(_held_images(cycle.pod, table))
        if not held:
            out[rows] = 0
            return
        sums = np.zeros(table.capacity, np.int64)
        for image, times in held.items():
            sums[image.row_array()] += _as_int64(times * _scaled(image, table))
        most = _most(cycle.pod)
        counted = np.minimum(np.maximum(sums[rows], _LEAST), most) - _LEAST
        out[rows] = percent_of(counted, np.array([most - _LEAST]))

    def score(self, pod: Pod, node: NodeView, cycle: Cycle) -> int:
        table = cycle.table
        images = [image for image in _held_images(pod, table) if node.row in image.rows]
        most = _most(pod)
        total = _as_int64(sum(_scaled(image, table) for image in images))
        clamped = min(max(total, _LEAST), most)
        return MAX_NODE_SCORE * (clamped - _LEAST) // (most - _LEAST)


def _held_images(pod: Pod, table: NodeTable) -> Iterator[HeldImage]:
    """Each image of the pod that some node has, as often as the pod names it."""
    if len(table.images):
        for name in _image_names(pod):
            image = table.images.get(name)
            if image is not None:
                yield image


def _image_names(pod: Pod) -> Iterator[str]:
    spec = pod.spec
    for container in (*(spec.init_containers or ()), *(spec.containers or ())):
        yield _normalized(container.image)
    for volume in spec.volumes or ():
        if volume.image is not None:
            yield _normalized(volume.image.get("reference") or "")


def _normalized(name: str) -> str:
    """An image without a tag is the latest; a colon before the last slash is a port."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _scaled(image: HeldImage, table: NodeTable) -> int:
    """Bytes that count, in upstream's floating-point steps."""
    return _as_int64(int(float(image.size) * (len(image.rows) / len(table))))


def _as_int64(number: int) -> int:
    """Go's arithmetic: what is too large comes back from below."""
    return (number + 2**63) % 2**64 - 2**63


def _most(pod: Pod) -> int:
    containers = len(pod.spec.init_containers or ()) + len(pod.spec.containers or ())
    return _MOST_PER_CONTAINER * max(containers, 1)
