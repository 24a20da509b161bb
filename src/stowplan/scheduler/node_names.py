"""Node names in a short form: `worker-[1-3,7],gpu-2`.

The ledger keeps the nodes behind each reason in this form. Names that end in a number are folded by
what precedes it; all others stay as they are. Node names hold neither commas nor brackets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

_DIGITS: Final = "0123456789"


def fold_names(names: Iterable[str], most: int) -> tuple[str, int]:
    """The short form, of at most so many characters, and how many names it leaves out."""
    numbers: dict[str, list[int]] = {}
    whole: list[str] = []
    for name in names:
        stem = name.rstrip(_DIGITS)
        digits = name[len(stem) :]
        # 007 and 7 are two names: leading zeros belong to the stem. 18 digits fit into any JSON.
        if digits and len(digits) <= 18:
            number = int(digits)
            stem += "0" * (len(digits) - len(str(number)))
            numbers.setdefault(stem, []).append(number)
        else:
            whole.append(name)
    parts: list[str] = []
    length = left_out = 0
    for part, count in _parts(numbers, whole):
        length += len(part) + 1
        if length <= most + 1:
            parts.append(part)
        else:
            left_out += count
    return ",".join(parts), left_out


def _parts(numbers: dict[str, list[int]], whole: list[str]) -> Iterator[tuple[str, int]]:
    """Each part of the short form, with the number of names that it stands for."""
    for stem, found in sorted(numbers.items()):
        found.sort()
        if len(found) == 1:
            yield f"{stem}{found[0]}", 1
        else:
            yield f"{stem}[{','.join(_ranges(found))}]", len(found)
    for name in sorted(whole):
        yield name, 1


def _ranges(numbers: list[int]) -> Iterator[str]:
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield _range(first, last)
            first = number
        last = number
    yield _range(first, last)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
