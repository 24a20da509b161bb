"""Lists that lie: answers from the past, and items twice.

Called by the proxy with every answer to a list. It remembers the first one to each request, which
is what a client gets from an API server that lags behind.
"""

from __future__ import annotations

import json
import re

from stowplan.lab.faults.asked import Asked
from stowplan.loader.json_text import load_json

_VERSION = re.compile(r"&?resourceVersion(Match)?=[^&]*")


class SeenLists:
    """The oldest answer to each list request; pages after the first are left alone."""

    def __init__(self) -> None:
        self._oldest: dict[tuple[str, str], bytes] = {}

    def remember(self, asked: Asked, body: bytes) -> None:
        if "continue=" not in asked.query:
            self._oldest.setdefault(_key(asked), body)

    def oldest(self, asked: Asked, body: bytes) -> bytes:
        return self._oldest.get(_key(asked), body)


def _key(asked: Asked) -> tuple[str, str]:
    return asked.path, _VERSION.sub("", asked.query)


def with_items_twice(body: bytes) -> bytes:
    """The same list in which every item occurs twice; anything but a JSON list stays as it is."""
    try:
        answer = load_json(body)
        answer["items"] = [item for item in answer["items"] for _ in range(2)]
    except (ValueError, TypeError, KeyError):
        return body
    return json.dumps(answer).encode()
