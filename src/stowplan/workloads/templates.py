"""Templates of objects: YAML with the little of Go's text/template that scheduler_perf uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]


class Template:
    """A file that describes one object out of many; `build` makes the one with a number."""

    path: Path
    api_version: str
    kind: str

    def build(self, index: int, count: int) -> JsonObject:
        """The object number `index` of `count`. Parts are shared: do not change them."""
        raise NotImplementedError
