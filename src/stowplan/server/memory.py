"""Settings of the C library's allocator and of Python's garbage collector for a scheduler.

Called when a scheduler starts to serve. A decision allocates and frees arrays of one number a node.
By default glibc returns such memory to the system each time, and the system zeroes each page before
it hands it out again: at 5,000 nodes that was a quarter of all CPU time.
"""

from __future__ import annotations

import ctypes
import gc

from stowplan.logs import get_logger, kv

log = get_logger(__name__)

# From malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 64 << 20
_FROM_THE_HEAP_BYTES = 16 << 20
_GC_THRESHOLDS = (20_000, 50, 100)
_GC_THRESHOLD_AT_FIRST = 500_000


def keep_freed_memory() -> bool:
    """Keep freed memory for the next decision; False if the C library does not support it."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError) as problem:
        # musl, for one: everything works, and takes more CPU time.
        log.debug("The C library cannot be told to keep freed memory", extra=kv(err=problem))
        return False
    return bool(
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES) and mallopt(_M_MMAP_THRESHOLD, _FROM_THE_HEAP_BYTES)
    )


def grow_without_collecting() -> None:
    """Collect garbage rarely while the cluster is listed, when there is almost none."""
    gc.set_threshold(_GC_THRESHOLD_AT_FIRST)


def spare_the_collector() -> None:
    """Exclude the present objects from garbage collections, because they live long."""
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
