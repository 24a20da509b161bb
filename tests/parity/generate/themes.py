"""What a case is about besides nodes and resources: each theme dresses pods and brings objects.

A case has none, one or several, so that no pod has to meet every demand at once. A new theme is an
entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.parity.generate.dice import Dice, Json
from tests.parity.generate.spread import SPREAD_ARGUMENTS, own, spread_objects, spreading


@dataclass(frozen=True)
class Theme:
    """`dress` are ways to change a pod, each of which is used or not."""

    dress: Sequence[Callable[[Dice, Json], None]]
    objects: Callable[[Dice], list[Json]]
    #: Arguments of plugins to try, besides none.
    arguments: Sequence[Json] = ()


THEMES = (Theme((spreading, own), spread_objects, SPREAD_ARGUMENTS),)


def some_themes(dice: Dice) -> list[Theme]:
    """Most cases have one."""
    wanted = dice.choice([0, 1, 1, 1, 1, 2, 2, len(THEMES)])
    return dice.sample(THEMES, min(wanted, len(THEMES)))
