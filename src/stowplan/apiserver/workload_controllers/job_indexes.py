"""Completed indexes of an Indexed Job, in the form of its status: "0,2-4,7"."""

from __future__ import annotations

from collections.abc import Iterable

from stowplan.loader.numbers import whole_number


def parse_indexes(text: str, completions: int) -> set[int]:
    """The numbers below `completions` that a text names; what cannot be read is left out."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        start, _, end = part.partition("-")
        first, last = whole_number(start), whole_number(end or start)
        if first is not None and last is not None:
            found.update(range(first, min(last, completions - 1) + 1))
    return found


def format_indexes(indexes: Iterable[int]) -> str:
    """Three or more in a row are a range; two are written out, as kube-controller-manager does."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs
    )
