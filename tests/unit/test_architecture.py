"""The map names files that exist, and every package."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "ARCHITECTURE.md").read_text()
SOURCE = ROOT / "src" / "stowplan"


def section(title: str) -> str:
    return MAP.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_files_to_open_exist() -> None:
    rows = [line for line in section("To change X, open Y").splitlines() if "`src/" in line]
    assert len(rows) >= 20
    paths = re.findall(r"`(src/[^`]+)`", "\n".join(rows))
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_package_is_in_the_table() -> None:
    named = set(re.findall(r"`([a-z.]+)`", section("Packages")))
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")} - {"sim", "lab"}
    packages |= {
        f"{group}.{path.parent.name}"
        for group in ("sim", "lab")
        for path in (SOURCE / group).glob("*/__init__.py")
    }
    assert packages - named == set()


def test_modules_that_the_text_names_exist() -> None:
    layers = "api|cluster|framework|scheduler|server|queue|http"
    named = re.findall(rf"`((?:{layers})\.[a-z_0-9]+)`", MAP)
    missing = [
        name
        for name in named
        if not (SOURCE / f"{name.replace('.', '/')}.py").exists()
        and not (SOURCE / name.replace(".", "/")).is_dir()
    ]
    assert missing == []
