"""Specs of pods that were accepted before: pods of one template are completed and validated once.

A spec that was sent is known by its JSON. What conforming and defaulting make of it follows from it
alone; admission may add to that, and what it made of it before is valid. The parts of known specs
are shared by all of their pods, and stored objects are never mutated.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import msgspec

from stowplan.apiserver.history import Json

#: Specs that are kept, and the length of the JSON of the largest of them.
_MOST: Final = 512
_LARGEST: Final = 16 << 10
#: Valid specs of one that was sent: a few, as the priority changes with its class.
_MOST_VALID: Final = 8
#: matchLabelKeys and mismatchLabelKeys: what becomes of them depends on the pod's labels.
_OF_LABELS: Final = b'atchLabelKeys"'
_encode = msgspec.json.Encoder().encode


class KnownSpec:
    """What becomes of a spec that was sent."""

    def __init__(self, defaulted: Json) -> None:
        self._defaulted = defaulted
        self._valid: dict[Hashable, Json] = {}

    def defaulted(self) -> Json:
        """The spec before admission; fields may be added and replaced, but not changed."""
        return dict(self._defaulted)

    def valid(self, spec: Json) -> Json | None:
        """The same spec after admission, as another pod has it; None if no pod has."""
        return self._valid.get(self._admitted(spec))

    def accept(self, spec: Json) -> None:
        """The spec is valid after admission."""
        if len(self._valid) >= _MOST_VALID:
            self._valid.clear()
        self._valid[self._admitted(spec)] = spec

    def _admitted(self, spec: Json) -> Hashable:
        """What admission has changed."""
        before = self._defaulted
        return tuple([field for field in spec.items() if before.get(field[0]) is not field[1]])


class SharedSpecs:
    """Known specs by the JSON that was sent."""

    def __init__(self) -> None:
        self._known: dict[bytes, KnownSpec] = {}

    def find(self, sent: Json) -> tuple[bytes, KnownSpec | None]:
        """The key of a pod's spec, and what is known of it."""
        key = _encode(sent.get("spec"))
        return key, self._known.get(key)

    def add(self, key: bytes, spec: Json) -> KnownSpec | None:
        """Remember a spec as it is before admission; None if it is not worth it."""
        if len(key) > _LARGEST or _OF_LABELS in key:
            return None
        if len(self._known) >= _MOST:
            self._known.clear()
        known = self._known[key] = KnownSpec(dict(spec))
        return known
