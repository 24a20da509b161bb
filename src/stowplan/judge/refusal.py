"""Why a line cannot be answered."""

from __future__ import annotations

from stowplan.errors import StowplanError


class QuestionRefused(StowplanError):
    """A question is invalid; the text names the field. The next line is still answered."""

    def at(self, place: str) -> QuestionRefused:
        """The same refusal, with the path of the enclosing object."""
        return QuestionRefused(f"{place}: {self}")


def listed(problems: list[str]) -> str:
    """Several problems as one line of text, each once."""
    return "; ".join(dict.fromkeys(problems))
