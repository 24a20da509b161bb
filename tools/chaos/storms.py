"""Storms: faults of single requests and watches that a proxy injects for some seconds.

What a storm contains follows from the step's number. Late bindings come within the gap that the
lease leaves between two leaders; later ones would meet the documented limit of the lease guard.
"""

from __future__ import annotations

import random

from stowplan.lab.faults import ALWAYS, Fault

BINDING = "pods/binding"


def make_storm(number: int) -> list[Fault]:
    """Four different faults, fresh ones."""
    dice = random.Random(number)
    return dice.sample(_catalogue(dice), 4)


def _catalogue(dice: random.Random) -> list[Fault]:
    def often(verb: str, resource: str = "") -> Fault:
        chance = dice.choice((0.1, 0.3, 0.6))
        return Fault(verb, resource=resource, times=ALWAYS, chance=chance)

    made = []
    for status in (409, 429, 500, 503):
        fault = often("create", BINDING)
        fault.status = status
        made.append(fault)
    patient = often("create", BINDING)
    patient.status, patient.headers = 429, {"Retry-After": "1"}
    before, after, late = (often("create", BINDING) for _ in range(3))
    before.reset, after.reset, late.late_s = "before", "after", dice.uniform(0.1, 0.8)
    slow, halved = often("*"), often("*")
    slow.delay_s, halved.half = dice.uniform(0.05, 0.5), True
    lease = often("update", "leases")
    lease.status = 500
    events = often("create", "events")
    events.status = 503
    made += [patient, before, after, late, slow, halved, lease, events]
    watches = [often("watch", dice.choice(("pods", "nodes", ""))) for _ in range(5)]
    garbage, silent, ends, expires, trickle = watches
    garbage.garbage = dice.choice((b"\xff\xfe{{{\n", b'{"type":"ADDED","object":7}\n', b"\n\n"))
    silent.silent, ends.ends, expires.expires, trickle.bytes_per_s = True, True, True, 20_000
    for watch in watches:
        watch.after = dice.randrange(20)
    doubled, stale, gone = often("list"), often("list"), often("watch")
    doubled.duplicated, stale.stale, gone.status = True, True, 410
    return [*made, *watches, doubled, stale, gone]
