"""What the static scheduler needs to be allowed, said before the first request is refused.

Strict, it needs so little that the API server's own refusal says it all. The default plugins look
up many kinds more: there the API server is asked about all of them at once.
"""

from __future__ import annotations

from stowplan.api.client import ApiClient
from stowplan.errors import Forbidden
from stowplan.scheduler.access import grouped, missing_rights
from stowplan.scheduler.engine import Engine


async def check_rights(client: ApiClient, engine: Engine) -> None:
    """Forbidden names all that is missing and cannot be done without; watches can."""
    if not engine.looked_up():
        return
    missing = await missing_rights(client, plugins=engine.plugins())
    needed = [each for each in missing if not each.is_optional and each.verb != "watch"]
    if needed:
        raise Forbidden(
            f"missing permissions {'; '.join(grouped(needed))}. --respect-node-state runs the "
            "default plugins, which need them. Fix: apply the role in "
            "deploy/static/respect-node-state"
        )
