"""How the process treats memory: what a scheduler does all day is not what the defaults are for.

Called when a scheduler starts to serve. A decision makes and drops arrays of one number a node.
glibc gives such memory back to the system each time, and the system hands it out again page by
page, zeroed: at 5,000 nodes that was a quarter of all CPU time.
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
    """Keep what is freed for the next decision; False where the C library is another."""
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
    """While the cluster is listed almost nothing is garbage."""
    gc.set_threshold(_GC_THRESHOLD_AT_FIRST)


def spare_the_collector() -> None:
    """What is there now stays for long: do not look through it at every collection."""
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
