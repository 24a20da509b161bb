"""Where the binaries are: the cache directory, and KUBEBUILDER_ASSETS in front of it.

Called by the builder (where to put them), by `ControlPlane` and the test fixtures (where to find
them). What must stay true: a file in the cache directory is complete, because it got there by a
rename; so "is it there" is the whole check, and looking things up never starts a build.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stowplan.lab.controlplane.targets import (
    TARGET_BY_NAME,
    TARGETS,
    BuildTarget,
    cache_key,
    file_name,
)

HOW_TO_BUILD = "`make controlplane` builds what is missing (minutes the first time, then cached)"


class BinaryMissing(Exception):
    """A binary of the control plane is neither in KUBEBUILDER_ASSETS nor in the cache."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        super().__init__(f"no {', '.join(self.names)} on this machine: {HOW_TO_BUILD}")


@dataclass(frozen=True)
class LocatedBinary:
    """An existing binary, and whether it comes from KUBEBUILDER_ASSETS."""

    path: Path
    from_assets: bool


def cache_root() -> Path:
    """The directory that holds every build of ours; $STOWPLAN_CACHE moves it."""
    override = os.environ.get("STOWPLAN_CACHE")
    if override:
        return Path(override).expanduser().resolve() / "controlplane"
    # The XDG specification says to ignore a relative value.
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(xdg) if xdg.startswith("/") else Path.home() / ".cache"
    return base / "stowplan" / "controlplane"


def cache_directory() -> Path:
    """The directory of the versions this checkout pins."""
    return cache_root() / cache_key()


def assets_directory() -> Path | None:
    """KUBEBUILDER_ASSETS, the envtest convention for ready-made binaries, when it is set."""
    value = os.environ.get("KUBEBUILDER_ASSETS")
    return Path(value) if value else None


def locate(target: BuildTarget) -> LocatedBinary | None:
    """The target's binary, or None when it still has to be built."""
    assets = assets_directory()
    # Our own programs belong to this checkout; no other directory can have the right ones.
    if assets is not None and not target.is_ours:
        candidate = assets / target.name
        if _is_executable(candidate):
            return LocatedBinary(candidate, from_assets=True)
    candidate = cache_directory() / file_name(target)
    return LocatedBinary(candidate, from_assets=False) if _is_executable(candidate) else None


def find_binary(name: str) -> Path:
    """The path of a binary by its name, such as ``kubectl``; raises BinaryMissing."""
    located = locate(TARGET_BY_NAME[name])
    if located is None:
        raise BinaryMissing([name])
    return located.path


def missing_targets(wanted: Iterable[BuildTarget] = TARGETS) -> list[BuildTarget]:
    """Those of the wanted targets that have to be built."""
    return [target for target in wanted if locate(target) is None]


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
