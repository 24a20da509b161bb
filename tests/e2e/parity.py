"""The same raw requests to two API servers, and what they answered with everything random masked.

A scenario is a list of steps. `{ns}` in a path or body is a namespace that is new for each server
and scenario; `{uid:NAME}` and `{rv:NAME}` are those of the object NAME as last answered.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

_MASKS = [
    (re.compile(pattern, re.DOTALL), replacement)
    for pattern, replacement in (
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "TIME"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
        (r"(?<=\()\d+(?=\))|(?<=version: )\d+|(?<=current: )\d+|(?<=meta: )\d+", "RV"),
        (r"(?<=[ax][-.])[bcdfghjklmnpqrstvwxz2456789]{5}\b", "NAME"),
        (r"\b(?:\d+[dhms])+\b", "AGE"),  # in a table's cells
        # The whole object that a patch would have made; ours has no managed fields.
        (r'Invalid value: "\{.*\}"', "Invalid value: OBJECT"),
        # How an internal Go struct differs from another one.
        (r"\n@@ .*?(\]?)\Z", "\n\\1"),
    )
]


@dataclass(frozen=True)
class Step:
    """One request."""

    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    accept: str = "application/json"
    drop: tuple[str, ...] = ()  # fields of the answer that are not compared, as a.b.c
    raw: bytes | None = None  # sent as it is, instead of `body`


@dataclass
class Answer:
    status: int
    body: Any


@dataclass
class Side:
    """One of the two servers, and what it has told about the objects of this scenario."""

    session: aiohttp.ClientSession
    namespace: str
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def play(self, step: Step) -> Answer:
        payload = step.raw
        if step.body is not None:
            payload = self._fill(msgspec.json.encode(step.body).decode()).encode()
        headers = {"Accept": step.accept}
        if payload is not None:
            headers["Content-Type"] = step.content_type
        url = self._fill(step.path)
        async with self.session.request(
            step.method, url, data=payload, headers=headers
        ) as response:
            raw = await response.read()
        value = _decoded(raw)
        for item in value if isinstance(value, list) else [value]:
            self._remember(item)
        return Answer(response.status, self._mask(value, step.drop))

    def _fill(self, text: str) -> str:
        text = text.replace("{ns}", self.namespace)
        return re.sub(r"\{(uid|rv):([^}]*)\}", lambda m: self._known(m[1], m[2]), text)

    def _known(self, what: str, name: str) -> str:
        metadata = self.seen[name]
        return str(metadata["uid" if what == "uid" else "resourceVersion"])

    def _remember(self, value: Any) -> None:
        if not isinstance(value, dict):
            return
        metadata = value.get("metadata")
        if isinstance(metadata, dict) and "name" in metadata and "uid" in metadata:
            self.seen[metadata["name"]] = metadata

    def _mask(self, value: Any, drop: tuple[str, ...], path: str = "") -> Any:
        if isinstance(value, dict):
            masked: dict[str, Any] = {}
            for key, item in value.items():
                here = f"{path}.{key}" if path else key
                if here in drop or key == "managedFields" or item is None:
                    continue
                if key == "description" and path.endswith("columnDefinitions[]"):
                    continue
                if key == "resourceVersion":
                    masked[key] = "RV" if item else ""
                elif key == "causes" and isinstance(item, list):
                    masked[key] = _without_repeats(self._mask(item, drop, here))
                elif key in ("uid", "continue"):
                    masked[key] = "MASKED"
                else:
                    masked[key] = self._mask(item, drop, here)
            return masked
        if isinstance(value, list):
            return [self._mask(item, drop, f"{path}[]") for item in value]
        if isinstance(value, str):
            text = value.replace(self.namespace, "NS")
            for pattern, replacement in _MASKS:
                text = pattern.sub(replacement, text)
            return text
        return value


def _decoded(raw: bytes) -> Any:
    """One JSON value, a watch's lines as a list of them, or whatever text it is."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        pass
    try:
        return [msgspec.json.decode(line) for line in raw.split(b"\n") if line.strip()]
    except msgspec.DecodeError:
        return raw.decode()


def _without_repeats(values: list[Any]) -> list[Any]:
    """kube-apiserver validates some fields twice, and says so twice."""
    return [value for index, value in enumerate(values) if value not in values[:index]]


def differences(left: Any, right: Any, path: str = "") -> list[str]:
    """Every place where the two answers differ, one line each."""
    if isinstance(left, dict) and isinstance(right, dict):
        found = []
        for key in sorted(left.keys() | right.keys()):
            here = f"{path}.{key}"
            if key not in left:
                found.append(f"{here}: only in right: {_brief(right[key])}")
            elif key not in right:
                found.append(f"{here}: only in left: {_brief(left[key])}")
            else:
                found += differences(left[key], right[key], here)
        return found
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        found = []
        for index, (one, other) in enumerate(zip(left, right, strict=True)):
            found += differences(one, other, f"{path}[{index}]")
        return found
    if left == right:
        return []
    return [f"{path}: {_brief(left)} != {_brief(right)}"]


def _brief(value: Any) -> str:
    """Long answers cut short; a list of watch events by their types and names."""
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return str(
            [
                f"{item.get('type')} {item.get('object', item).get('metadata', {}).get('name')}"
                for item in value
            ]
        )
    text = repr(value)
    return text if len(text) <= 800 else text[:400] + " ... " + text[-400:]


async def compare(left: Side, right: Side, steps: list[Step]) -> list[str]:
    """Plays the steps on both; the differences, each with the step that showed it."""
    found: list[str] = []
    for number, step in enumerate(steps, 1):
        one, other = await left.play(step), await right.play(step)
        lines = differences(one.body, other.body)
        if one.status != other.status:
            lines.insert(0, f" status {one.status} != {other.status}")
        found += [f"step {number} {step.method} {step.path}{line}" for line in lines]
    return found


@asynccontextmanager
async def new_namespace(session: aiohttp.ClientSession, name: str) -> AsyncIterator[Side]:
    """A side with a namespace of its own, in which no pods are left."""
    body = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}
    async with session.post("/api/v1/namespaces", json=body) as response:
        assert response.status == 201, await response.text()
    yield Side(session, name)
    # A scheduler that another test starts would take those that are pending.
    pods = f"/api/v1/namespaces/{name}/pods"
    async with session.delete(pods, json={"gracePeriodSeconds": 0}) as response:
        assert response.status == 200, await response.text()
