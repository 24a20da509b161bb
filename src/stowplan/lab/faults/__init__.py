"""A fault proxy: put it between a client and an API server, and choose what goes wrong.

    with FaultProxy("http://127.0.0.1:8080", seed=7) as proxy:
        proxy.inject(Fault("create", resource="pods/binding", times=3, reset="after"))
        ...  # the client under test uses proxy.url

docs/chaos.md lists the faults. Loopback only.
"""

from stowplan.lab.faults.fault import ALWAYS, Fault
from stowplan.lab.faults.proxy import FaultProxy

__all__ = ["ALWAYS", "Fault", "FaultProxy"]
