"""Selectors answered by `stowplan.cel` and by cel-go, side by side.

The program in src/stowplan/lab/controlplane/cel compiles expressions in kube-scheduler's
environment and evaluates them on devices. Compared are refusals with their text, answers, errors
and costs.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from stowplan.cel.checker import check
from stowplan.cel.device import (
    COST_LIMIT,
    ENVIRONMENT,
    DeviceView,
    SelectorError,
    compile_selector,
    device_value,
    worst_cost,
)
from stowplan.cel.errors import Cancelled, CompileError, Failure
from stowplan.cel.go_text import go_float, utf8
from stowplan.cel.parser import parse
from stowplan.cel.program import compile_program
from stowplan.cel.quantities import CelQuantity
from stowplan.cel.values import Duration, Map, Opt, Timestamp, TypeValue, UInt, Value
from stowplan.cel.versions import Semver
from tests.parity.cel.expressions import Expressions, random_devices
from tests.parity.oracle import Json, Oracle

#: cel-go iterates over maps in random order: its answer about a device and its cost can vary.
TRIES = 30
_BATCH = 100


def differences(oracle: Oracle, seed: int, selectors: int) -> Iterator[str]:
    """Describe each of so many random selectors that is answered differently."""
    for start in range(0, selectors, _BATCH):
        batch = seed * 1_000_000 + start
        expressions, devices = Expressions(batch), random_devices(batch)
        for _ in range(min(_BATCH, selectors - start)):
            difference = compare(oracle, expressions.selector(), devices)
            if difference is not None:
                yield difference


def compare(oracle: Oracle, expression: str, devices: list[Json]) -> str | None:
    """What differs for one expression, or None."""
    ours = answer(expression, devices)
    theirs: Json = {}
    seen: set[int] = set()
    for _ in range(TRIES):
        theirs = oracle.answer({"expression": expression, "devices": devices})
        if "refused" in theirs or "refused" in ours:
            if same_refusal(theirs.get("refused"), ours.get("refused")):
                return None
            break
        if theirs.get("maxCost", 0) != ours["maxCost"]:
            break
        pairs = zip(theirs["results"], ours["results"], strict=True)
        seen |= {number for number, pair in enumerate(pairs) if _is_same(*pair)}
        if len(seen) == len(devices):
            return None
    return f"{expression}\n  cel-go: {json.dumps(theirs)}\n  ours:   {json.dumps(ours)}"


def answer(expression: str, devices: list[Json]) -> Json:
    """What the oracle would answer, from `stowplan.cel`."""
    try:
        selector = compile_selector(expression)
    except CompileError as error:
        return {"refused": str(error)}
    results: list[Json] = []
    for device in devices:
        try:
            matches, cost = selector.evaluate(device_value(_view(device)))
            results.append({"matches": matches, "cost": cost})
        except SelectorError as error:
            results.append({"matches": False, "error": str(error)})
    return {"results": results, "maxCost": worst_cost(expression)}


def _is_same(theirs: Json, ours: Json) -> bool:
    """Whether both say the same of one device."""
    return bool(
        theirs["matches"] == ours["matches"]
        and theirs.get("error") == ours.get("error")
        and ("error" in theirs or theirs["cost"] == ours["cost"])
    )


def same_refusal(theirs: str | None, ours: str | None) -> bool:
    """Texts of syntax errors are ANTLR's and may differ; all others are the same."""
    if theirs is None or ours is None:
        return theirs is ours
    return theirs == ours or "Syntax error" in theirs


def _view(device: Json) -> DeviceView:
    attributes: dict[str, object] = {}
    for name, attribute in device.get("attributes", {}).items():
        ((kind, value),) = attribute.items()
        attributes[name] = ("version", value) if kind == "version" else value
    capacity = {name: one["value"] for name, one in device.get("capacity", {}).items()}
    multiple = bool(device.get("allowMultipleAllocations"))
    return DeviceView(device["driver"], attributes, capacity, multiple)


# Expressions of any type


def value_of(expression: str, device: Json) -> Json:
    """The value of any expression with its type, as the oracle describes it."""
    try:
        tree = parse(expression)
        check(expression, tree, ENVIRONMENT)
        program = compile_program(tree, "device")
    except CompileError as error:
        return {"compileError": str(error)}
    try:
        value, cost = program.evaluate(device_value(_view(device)), COST_LIMIT)
    except Cancelled as cancelled:
        return {"error": str(cancelled)}
    if isinstance(value, Failure):
        return {"error": value.text, "cost": cost}
    return {"value": described(value), "cost": cost}


def described(value: Value) -> Any:
    """A value with its type, numbers as text; as `describe` of the program writes it."""
    if isinstance(value, bool) or value is None:
        return value
    for kind, name in _SCALARS:
        if isinstance(value, kind):
            # JSON of Go has U+FFFD for what is not UTF-8.
            return {name: utf8(str(value)).decode(errors="replace")}
    if isinstance(value, Duration | int):
        return {"duration" if isinstance(value, Duration) else "int": str(int(value))}
    if isinstance(value, float):
        return {"double": go_float(value)}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, TypeValue):
        return {"type": value.name}
    if isinstance(value, Opt | list):
        items = value.items if isinstance(value, Opt) else value
        return {"optional" if isinstance(value, Opt) else "list": [*map(described, items)]}
    if isinstance(value, Map):
        entries = [[described(key), described(one)] for key, one in value.items()]
        return {"map": sorted(entries, key=_by_key)}
    return {"other": str(value)}


_SCALARS: tuple[tuple[type, str], ...] = (
    (Timestamp, "timestamp"),
    (UInt, "uint"),
    (str, "string"),
    (CelQuantity, "quantity"),
    (Semver, "semver"),
)


def sorted_maps(described: Any) -> Any:
    """The oracle's description with the entries of maps in our order."""
    if isinstance(described, dict) and "map" in described:
        entries = [[sorted_maps(key), sorted_maps(one)] for key, one in described["map"]]
        return {"map": sorted(entries, key=_by_key)}
    if isinstance(described, dict) and "list" in described:
        return {"list": [sorted_maps(one) for one in described["list"]]}
    return described


def _by_key(entry: list[Any]) -> str:
    return json.dumps(entry[0])
