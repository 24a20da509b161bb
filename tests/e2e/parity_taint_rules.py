"""Scenarios over DeviceTaintRules."""

from __future__ import annotations

from typing import Any

from tests.e2e.device_bodies import CONDITION, DRIVER
from tests.e2e.parity import MERGE, Step
from tests.e2e.parity_objects import named
from tests.e2e.parity_pods import TABLE, create

RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
RULE = f"{RULES}/{{ns}}"
_TIME = "2025-01-01T00:00:00Z"
_TAINT = {"key": "a", "effect": "NoSchedule"}
_EVICTING = CONDITION | {"type": "EvictionInProgress"}


def rule(selector: Any = None, name: str = "{ns}", **taint: Any) -> dict[str, Any]:
    return named(name, spec={"deviceSelector": selector, "taint": taint})


def effect(value: str, **more: Any) -> Step:
    """A change of the rule's effect; the time of the change is not compared."""
    return Step("PATCH", RULE, {"spec": {"taint": {"effect": value, **more}}}, MERGE)


def conditions(*wanted: dict[str, Any]) -> Step:
    return Step("PATCH", f"{RULE}/status", {"status": {"conditions": list(wanted)}}, MERGE)


SCENARIOS: dict[str, list[Step]] = {
    "rules that taint devices": [
        create(rule({}, key="a/b", value="c", effect="NoSchedule"), RULES),
        create(named("{ns}-timed", spec={"taint": _TAINT | {"timeAdded": _TIME}}), RULES),
        effect("NoExecute"),
        effect("None", timeAdded=_TIME),
        effect("None"),
        Step("PATCH", RULE, {"spec": {"deviceSelector": {"driver": DRIVER}}}, MERGE),
        Step("PATCH", RULE, {"status": {"conditions": [_EVICTING]}}, MERGE),
        conditions(_EVICTING),
        conditions({}),
        conditions(*(_EVICTING | {"type": f"T{number}"} for number in range(9))),
        Step("GET", RULE, accept=TABLE),
        Step("DELETE", RULE),
        Step("DELETE", f"{RULE}-timed"),
    ],
    "rules that are refused": [
        create(named("{ns}"), RULES),
        create(rule(), RULES),
        create(rule(key="-", effect="Never"), RULES),
        create(rule(key="a", value="-", effect="NoExecute"), RULES),
        create(rule({"driver": "-", "pool": "", "device": "-"}, key="a", effect="None"), RULES),
        create(rule({"driver": "", "pool": "a//b", "device": ""}, **_TAINT), RULES),
        create(rule({"driver": 1}, **_TAINT), RULES),
        create(rule(name="A_", **_TAINT), RULES),
    ],
}
