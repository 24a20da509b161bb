"""Status codes and what they mean."""

from __future__ import annotations

import pytest

from stowplan.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    error,
    pending,
    unresolvable,
    unschedulable,
    wait,
)


@pytest.mark.parametrize(
    ("status", "label", "success", "rejected", "skip", "waits"),
    [
        (SUCCESS, "Success", True, False, False, False),
        (error("e"), "Error", False, False, False, False),
        (unschedulable("u"), "Unschedulable", False, True, False, False),
        (unresolvable("u"), "UnschedulableAndUnresolvable", False, True, False, False),
        (wait("w"), "Wait", False, False, False, True),
        (SKIP, "Skip", False, False, True, False),
        (pending("p"), "Pending", False, True, False, False),
    ],
)
def test_codes(
    status: Status, label: str, success: bool, rejected: bool, skip: bool, waits: bool
) -> None:
    assert status.code.label == label
    assert (status.is_success, status.is_rejected, status.is_skip, status.is_wait) == (
        success, rejected, skip, waits,
    )  # fmt: skip


def test_codes_have_upstreams_numbers() -> None:
    assert [code.label for code in sorted(Code)] == [
        "Success",
        "Error",
        "Unschedulable",
        "UnschedulableAndUnresolvable",
        "Wait",
        "Skip",
        "Pending",
    ]


def test_message_joins_reasons() -> None:
    assert unschedulable("Insufficient cpu", "Too many pods").message == (
        "Insufficient cpu, Too many pods"
    )
    assert SUCCESS.message == ""


def test_the_first_plugin_name_stays() -> None:
    status = unschedulable("x").by("A")
    assert status.plugin == "A"
    assert status.by("B").plugin == "A"
    assert status != unschedulable("x")
