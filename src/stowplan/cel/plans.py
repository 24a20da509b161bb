"""Compiled nodes of an expression (`Plan`), and the state of one evaluation (`Run`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stowplan.cel.errors import CostLimitExceeded
from stowplan.cel.values import Value, type_name

#: A variable without a value.
UNSET = object()


class Run:
    """One evaluation: the values of variables, and the cost so far."""

    __slots__ = ("cost", "limit", "slots")

    def __init__(self, slots: list[Value], limit: int) -> None:
        self.slots = slots
        self.limit = limit
        self.cost = 0

    def charge(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self.limit:
            raise CostLimitExceeded


Evaluate = Callable[[Run], Value]


@dataclass(slots=True)
class Plan:
    evaluate: Evaluate


@dataclass(slots=True)
class Constant(Plan):
    value: Value


def constant(value: Value) -> Constant:
    return Constant(lambda run: value, value)


#: Type names as Go prints them in some messages.
_GO_TYPES = {
    "bool": "types.Bool", "int": "types.Int", "uint": "types.Uint", "double": "types.Double",
    "string": "types.String", "bytes": "types.Bytes", "null_type": "types.Null",
    "google.protobuf.Duration": "types.Duration", "google.protobuf.Timestamp": "types.Timestamp",
    "type": "*types.Type", "optional_type": "*types.Optional",
    "kubernetes.Quantity": "cel.Quantity", "kubernetes.Semver": "cel.Semver",
    "kubernetes.URL": "cel.URL", "kubernetes.NamedFormat": "cel.Format",
    "net.IP": "cel.IP", "net.CIDR": "cel.CIDR",
}  # fmt: skip


def go_type(value: Value) -> str:
    """The type of a value as Go prints it."""
    name = type_name(value)
    return _GO_TYPES.get(name, name)
