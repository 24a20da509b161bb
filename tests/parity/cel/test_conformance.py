"""The CEL project's conformance files beside cel-go."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.missing_part import skip_or_fail
from tests.parity.cel.conformance import expressions, verdict
from tests.parity.oracle import Oracle

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_expressions_of_the_conformance_files(cel_oracle: Oracle) -> None:
    """Expressions that ours alone refuses need what docs/parity.md lists as missing."""
    found: dict[str, list[str]] = {}
    for expression in expressions():
        found.setdefault(verdict(cel_oracle, expression), []).append(expression)
    if not found:
        skip_or_fail("the Go module cel.dev/expr is not in the module cache")
    unsupported = [
        expression
        for kind in ("only ours refuses", "refused in other words")
        for expression in found.pop(kind, [])
        if "google.protobuf." not in expression
    ]
    assert unsupported == []
    assert Counter({kind: len(those) for kind, those in found.items()}) == {
        "same value": 1209,
        "same refusal": 1052,
    }
