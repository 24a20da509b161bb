"""Bills of materials: a validator accepts them, and they name what an installer would install."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tools.package import complete_platform, marker_environment
from tools.sbom import document

Json = dict[str, Any]


def write_wheel(folder: Path, name: str, *metadata: str) -> None:
    distribution, version = name.split("-")[:2]
    lines = ["Metadata-Version: 2.4", f"Name: {distribution}", f"Version: {version}", *metadata]
    with zipfile.ZipFile(folder / f"{name}.whl", "w") as archive:
        archive.writestr(f"{distribution}-{version}.dist-info/METADATA", "\n".join(lines) + "\n\n")
        archive.writestr("vendored/other-1.dist-info/METADATA", "Name: other")


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    write_wheel(
        tmp_path,
        "stowplan-0.1.0-py3-none-any",
        "License-Expression: Apache-2.0",
        "Requires-Dist: Fast_Maths>=1",
        "Requires-Dist: loops; extra == 'fast'",
        "Requires-Dist: gymnasium; extra == 'gym'",
        "Requires-Dist: backport; python_version < '3.12'",
    )
    for tag in ("cp311-cp311", "cp313-cp313"):
        version = "1.9" if tag.startswith("cp311") else "2.0"
        write_wheel(
            tmp_path,
            f"fast_maths-{version}-{tag}-manylinux_2_28_x86_64",
            "License: BSD-ish\n        and more",
            "Requires-Dist: words[all]",
        )
    write_wheel(tmp_path, "fast_maths-2.0-cp313-cp313-manylinux_2_17_x86_64")
    write_wheel(tmp_path, "loops-3-py3-none-manylinux_2_28_aarch64")
    write_wheel(tmp_path, "loops-3-py3-none-manylinux_2_28_x86_64", "License-Expression: MIT")
    write_wheel(
        tmp_path,
        "words-4-py3-none-any",
        "Classifier: License :: OSI Approved :: MIT License",
        "Requires-Dist: letters; extra == 'all'",
    )
    write_wheel(tmp_path, "letters-5-py3-none-any")
    write_wheel(tmp_path, "backport-6-py3-none-any")
    return tmp_path


def bill(wheels: Path, minor: int = 13) -> Json:
    return document(
        wheels.iterdir(),
        complete_platform((3, minor), "x86_64")["compatible_tags"],
        marker_environment((3, minor), "x86_64"),
        frozenset({"fast"}),
    )


def listed(document: Json) -> dict[str, str]:
    return {each["name"]: each["version"] for each in document["components"]}


def test_a_validator_of_the_standard_accepts_it(wheels: Path) -> None:
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    found = bill(wheels)
    assert validator.validate_str(json.dumps(found)) is None
    # It does look: an unknown field is refused.
    assert validator.validate_str(json.dumps(found | {"colour": "red"})) is not None


def test_what_an_installer_would_install_and_no_more(wheels: Path) -> None:
    later, earlier = bill(wheels), bill(wheels, minor=11)
    assert listed(later) == {"fast-maths": "2.0", "loops": "3", "words": "4", "letters": "5"}
    assert listed(earlier) == listed(later) | {"fast-maths": "1.9", "backport": "6"}
    assert later["metadata"]["component"]["purl"] == "pkg:pypi/stowplan@0.1.0"
    wheel = {each["name"]: each["properties"][0]["value"] for each in later["components"]}
    assert wheel["fast-maths"] == "fast_maths-2.0-cp313-cp313-manylinux_2_28_x86_64.whl"
    needs = {each["ref"]: each["dependsOn"] for each in later["dependencies"]}
    assert needs["pkg:pypi/stowplan@0.1.0"] == ["pkg:pypi/fast-maths@2.0", "pkg:pypi/loops@3"]
    assert needs["pkg:pypi/words@4"] == ["pkg:pypi/letters@5"]


def test_licences_are_expressions_or_words(wheels: Path) -> None:
    found = {each["name"]: each["licenses"] for each in bill(wheels)["components"]}
    assert found == {
        "fast-maths": [{"license": {"name": "BSD-ish"}}],
        "loops": [{"expression": "MIT"}],
        "words": [{"license": {"name": "MIT License"}}],
        "letters": [{"license": {"name": "unknown"}}],
    }


def test_the_same_wheels_make_the_same_document(
    wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")
    first = bill(wheels)
    assert first == bill(wheels)
    assert first["metadata"]["timestamp"] == "2026-01-01T00:00:00Z"
    write_wheel(wheels, "letters-5-py3-none-any", "Summary: changed")
    assert bill(wheels)["serialNumber"] != first["serialNumber"]
