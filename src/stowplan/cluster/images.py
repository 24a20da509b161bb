"""Which container images lie on which rows, kept up to date with every node.

`NodeTable` tells the images that a node reports, the ImageLocality plugin asks for the holders of
an image. As in kube-scheduler's cache, an image has one size for the whole cluster: that of the
node that reported it first, until no node has it any more. What must stay true: `rows` of an image
are the live rows whose node names it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stowplan.api.objects import ContainerImage
from stowplan.cluster.journal import Rows


class HeldImage:
    """An image that some node has.

    DIVERGES: how many nodes have it is always current. Upstream's figure for a node is of the time
    when that node last changed.
    """

    __slots__ = ("_array", "rows", "size")

    def __init__(self, size: int) -> None:
        #: Bytes.
        self.size = size
        self.rows: set[int] = set()
        self._array: Rows | None = None

    def row_array(self) -> Rows:
        """The rows for indexing columns; made again only when they have changed."""
        if self._array is None:
            self._array = np.sort(np.fromiter(self.rows, np.intp, len(self.rows)))
        return self._array

    # For `ImageIndex` alone

    def add(self, row: int) -> None:
        self.rows.add(row)
        self._array = None

    def discard(self, row: int) -> None:
        self.rows.discard(row)
        self._array = None


class ImageIndex:
    """All images by name, as the nodes spell them."""

    def __init__(self) -> None:
        self._images: dict[str, HeldImage] = {}
        self._names_of_row: dict[int, Iterable[str]] = {}
        #: Grows whenever an image gains or loses a holder, or has another size.
        self.version = 0

    def get(self, name: str) -> HeldImage | None:
        """An image's size and holders; None if no node has it."""
        return self._images.get(name)

    def __len__(self) -> int:
        return len(self._images)

    def set(self, row: int, reported: Iterable[ContainerImage]) -> None:
        """Replace the images of a row's node."""
        sizes: dict[str, int] = {}
        for image in reported:
            for name in image.names or ():
                sizes.setdefault(name, image.size_bytes)
        for name in self._names_of_row.pop(row, ()):
            if name not in sizes:
                self._leave(row, name)
        for name, size in sizes.items():
            held = self._images.get(name)
            if held is None:
                held = self._images[name] = HeldImage(size)
            if row not in held.rows:
                held.add(row)
                self.version += 1
            elif len(held.rows) == 1 and held.size != size:
                # Upstream forgets a node's images before it reads them again: the only holder
                # is then the first one to report.
                held.size = size
                self.version += 1
        if sizes:
            self._names_of_row[row] = tuple(sizes)

    def copy_sizes(self, other: ImageIndex) -> None:
        """Take over the sizes of another index, which depend on which node reported first."""
        for name, held in self._images.items():
            known = other.get(name)
            if known is not None:
                held.size = known.size

    def _leave(self, row: int, name: str) -> None:
        held = self._images[name]
        held.discard(row)
        self.version += 1
        if not held.rows:
            del self._images[name]
