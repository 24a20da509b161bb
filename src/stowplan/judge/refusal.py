"""Why a line cannot be answered."""

from __future__ import annotations

from stowplan.errors import StowplanError


class Refused(StowplanError):
    """Something in a line is wrong; the text names the place. The next line is still answered."""

    def at(self, place: str) -> Refused:
        """The same, of something that is part of something larger."""
        return Refused(f"{place}: {self}")


def listed(problems: list[str]) -> str:
    """Several problems as one line of text, each once."""
    return "; ".join(dict.fromkeys(problems))
