"""DefaultBinder: tells the API server which node a pod goes to."""

from __future__ import annotations

from stowplan.api.objects import Pod
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Plugin
from stowplan.logs import V3, get_logger, kv

log = get_logger(__name__)


class DefaultBinder(Plugin):
    name = "DefaultBinder"
    bind_is_idempotent = True

    async def bind(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """POST the binding; its UID keeps a namesake of the pod from being bound by mistake."""
        if log.isEnabledFor(V3):
            log.log(V3, "Attempting to bind pod to node", extra=kv(pod=pod.key, node=node))
        await self.handle.client.bind(pod.metadata.namespace, pod.metadata.name, pod.uid, node)
