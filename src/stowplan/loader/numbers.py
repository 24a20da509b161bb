"""Whole numbers in text from outside, which may have thousands of digits or none of ours."""

from __future__ import annotations

from typing import Final

#: Of 2**64. Python itself refuses to convert more than 4,300 digits, by a ValueError.
_DIGITS: Final = 20


def whole_number(text: str) -> int | None:
    """The number that a text of ASCII digits stands for; None for other text, or if it is long."""
    return int(text) if len(text) <= _DIGITS and text.isascii() and text.isdigit() else None
