"""What a case is about besides nodes and resources: each theme dresses pods and brings objects.

A case has none, one or several, so that no pod has to meet every demand at once. A new theme is an
entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.parity.generate.affinity import AFFINITY_ARGUMENTS, affinity_objects, pod_affinity
from tests.parity.generate.dice import Dice, Json
from tests.parity.generate.spread import (
    SPREAD_ARGUMENTS,
    alike,
    domain_labels,
    own,
    spread_objects,
    spreading,
)
from tests.parity.generate.volume_use import volume_use, volume_use_objects
from tests.parity.generate.volumes import VOLUME_ARGUMENTS, claims, driver_labels, volume_objects


@dataclass(frozen=True)
class Theme:
    """`pod` and `node` are ways to dress one, each of which is used or not."""

    pod: Sequence[Callable[[Dice, Json], None]]
    #: Given the names of the nodes.
    objects: Callable[[Dice, list[str]], list[Json]]
    node: Sequence[Callable[[Dice, Json], None]] = ()
    #: Arguments of plugins to try, besides none.
    arguments: Sequence[Json] = ()
    #: Plugins to leave out, besides none; see `configurations`.
    without: Sequence[Sequence[str]] = ()


#: Several volume plugins object to the same claims; the first one hides the others.
_FEWER_VOLUME_PLUGINS = (
    ("VolumeRestrictions",),
    ("VolumeRestrictions", "NodeVolumeLimits", "VolumeZone"),
    ("VolumeRestrictions", "NodeVolumeLimits", "VolumeZone"),
    ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding"),
    ("VolumeRestrictions", "VolumeBinding", "VolumeZone"),
)


def _spread_or_default(dice: Dice, pod: Json) -> None:
    """Constraints of the pod's own, or else those of the profile, by its owner and services."""
    if dice.often(0.6):
        spreading(dice, pod)
    if dice.often(0.6):
        own(dice, pod)


THEMES = (
    Theme(
        (alike, _spread_or_default),
        lambda dice, _: spread_objects(dice),
        (domain_labels,),
        SPREAD_ARGUMENTS,
    ),
    Theme((pod_affinity,), lambda dice, _: affinity_objects(dice), arguments=AFFINITY_ARGUMENTS),
    Theme((claims,), volume_objects, (driver_labels,), VOLUME_ARGUMENTS, _FEWER_VOLUME_PLUGINS),
    Theme((volume_use,), volume_use_objects, without=_FEWER_VOLUME_PLUGINS),
)


def some_themes(dice: Dice) -> list[Theme]:
    """Most cases have one."""
    wanted = dice.choice([0, 1, 1, 1, 1, 1, 2, len(THEMES)])
    return dice.sample(THEMES, wanted)
