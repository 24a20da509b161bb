"""StaticBinder: DefaultBinder that counts its requests and says in the log what came of them.

It stands in DefaultBinder's place in the profile of `stowplan static`. What becomes of a request
without a clear answer is the binding cycle's business; here it is a failure with its status.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stowplan.api.objects import Pod
from stowplan.errors import StowplanError
from stowplan.framework.cycle import Cycle
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Plugin
from stowplan.static.counters import BindCounters
from stowplan.static.lines import log

#: What got no answer by then is looked up.
_TIMEOUT_S: Final = 10.0


class StaticBinder(Plugin):
    name = "StaticBinder"

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self.counters = BindCounters((handle or Handle()).profile)
        #: Told of every request that failed, and of every pod that has its node.
        self.on_failure: Callable[[Pod, StowplanError], None] = lambda pod, problem: None
        self.on_bound: Callable[[Pod], None] = lambda pod: None

    async def bind(self, cycle: Cycle, pod: Pod, node: str) -> None:
        namespace, name = pod.metadata.namespace, pod.metadata.name
        self.counters.requested(namespace, name, node)
        try:
            await self.handle.client.bind(namespace, name, pod.uid, node, timeout_s=_TIMEOUT_S)
        except StowplanError as problem:
            self.counters.failed(namespace, name, node, problem)
            log.warning("Pod %s could not be scheduled on node %s: %s", name, node, problem)
            self.on_failure(pod, problem)
            raise
        self.counters.succeeded(namespace, name, node)

    def post_bind(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """Also where a request got no answer and turned out to have been carried out."""
        log.info("Pod %s scheduled on node %s", pod.metadata.name, node)
        self.on_bound(pod)
