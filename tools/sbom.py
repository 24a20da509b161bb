"""The bill of materials (SBOM) of a package: CycloneDX 1.6, a document for each Python it serves.

`tools.package` calls it with the wheels that it packs, and `make image` puts the document of the
image's Python at /opt/stowplan/sbom.cdx.json. Names, versions, licences and dependencies come from
the wheels' own metadata. Equal wheels make an equal document.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import uuid
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

Json = dict[str, Any]
PRODUCT: Final = "stowplan"
_REPOSITORY: Final = Path(__file__).parents[1]
_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_DNS, "stowplan.sbom")


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel file and what it says about itself."""

    file: Path
    name: str
    version: str
    metadata: Message

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


def document(
    wheels: Iterable[Path],
    tags: Iterable[str],
    environment: Mapping[str, str],
    extras: frozenset[str] = frozenset(),
) -> Json:
    """The bill of the product and everything that it needs, with these extras of it."""
    best = best_wheels(wheels, list(tags))
    chosen = {PRODUCT: best[PRODUCT]}
    needs: dict[str, list[str]] = {}
    waiting = [(PRODUCT, extras | {""})]
    while waiting:
        name, wanted = waiting.pop()
        needed = needs.setdefault(name, [])
        for each in required_by(best[name], environment, wanted):
            needed.append(each.name)
            if each.name not in chosen:
                chosen[each.name] = best[each.name]
                waiting.append((each.name, frozenset(each.extras) | {""}))
    product, *others = chosen.values()
    body: Json = {
        "metadata": {
            "timestamp": source_time().isoformat().replace("+00:00", "Z"),
            "component": component(product, "application"),
            "properties": [
                {"name": "stowplan:python", "value": environment["python_version"]},
                {"name": "stowplan:machine", "value": environment["platform_machine"]},
            ],
        },
        "components": [component(each) for each in sorted(others, key=lambda each: each.name)],
        "dependencies": [
            {"ref": chosen[name].purl, "dependsOn": sorted({chosen[each].purl for each in needed})}
            for name, needed in sorted(needs.items())
        ],
    }
    serial = uuid.uuid5(_NAMESPACE, json.dumps(body, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}"}
    return {**head, "version": 1, **body}


@dataclass(frozen=True, slots=True)
class Needed:
    name: str
    extras: tuple[str, ...]


def required_by(
    wheel: Wheel, environment: Mapping[str, str], extras: Iterable[str]
) -> list[Needed]:
    """The distributions that a wheel asks for in an environment."""
    found = []
    for line in wheel.metadata.get_all("Requires-Dist", []):
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({**environment, "extra": e}) for e in extras):
            found.append(
                Needed(canonicalize_name(requirement.name), tuple(sorted(requirement.extras)))
            )
    return found


def best_wheels(files: Iterable[Path], tags: list[str]) -> dict[str, Wheel]:
    """The wheel of each distribution that an installer would choose: that of the earliest tag."""
    rank = {tag: number for number, tag in enumerate(tags)}
    best: dict[str, tuple[int, Wheel]] = {}
    for file in sorted(files):
        name, version, _, served = parse_wheel_filename(file.name)
        fit = min((rank[str(tag)] for tag in served if str(tag) in rank), default=None)
        if fit is None or (name in best and best[name][0] <= fit):
            continue
        best[name] = (fit, Wheel(file, name, str(version), read_metadata(file)))
    return {name: wheel for name, (_, wheel) in best.items()}


def read_metadata(file: Path) -> Message:
    with zipfile.ZipFile(file) as archive:
        (name,) = [
            each
            for each in archive.namelist()
            if each.count("/") == 1 and each.endswith(".dist-info/METADATA")
        ]
        return HeaderParser().parsestr(archive.read(name).decode())


def component(wheel: Wheel, kind: str = "library") -> Json:
    found: Json = {
        "type": kind,
        "bom-ref": wheel.purl,
        "name": wheel.name,
        "version": wheel.version,
        "description": wheel.metadata.get("Summary", ""),
        "purl": wheel.purl,
        "licenses": licences(wheel.metadata),
    }
    if kind == "library":
        # Of the product the commit says more: its wheel is built anew each time.
        content = hashlib.sha256(wheel.file.read_bytes()).hexdigest()
        found["hashes"] = [{"alg": "SHA-256", "content": content}]
        found["properties"] = [{"name": "stowplan:wheel", "value": wheel.file.name}]
    return found


def licences(metadata: Message) -> list[Json]:
    """An SPDX expression where the wheel has one, else what it says in words."""
    expression = metadata.get("License-Expression")
    if expression:
        return [{"expression": expression}]
    words = [
        line.rpartition(" :: ")[2]
        for line in metadata.get_all("Classifier", [])
        if line.startswith("License :: ")
    ]
    text = metadata.get("License", "").strip().partition("\n")[0]
    return [{"license": {"name": word}} for word in words or [text or "unknown"]]


def source_time() -> datetime:
    """SOURCE_DATE_EPOCH, else the time of the commit."""
    seconds = (
        os.environ.get("SOURCE_DATE_EPOCH")
        or subprocess.run(
            ["git", "log", "-1", "--format=%ct"], cwd=_REPOSITORY, capture_output=True, text=True
        ).stdout.strip()
    )
    return datetime.fromtimestamp(int(seconds or 0), UTC)
