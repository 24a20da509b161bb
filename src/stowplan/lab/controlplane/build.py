"""Builds the missing binaries with Go and puts them into the cache.

Called by ``python -m stowplan.controlplane build``. What must stay true: one build at a time per
cache (a lock file), a binary appears under its name only when it is complete (built elsewhere
on the same file system, then renamed), and every failure says what to do next.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stowplan.lab.controlplane.binaries import cache_directory, cache_root, missing_targets
from stowplan.lab.controlplane.progress import ESTIMATE, BuildProgress
from stowplan.lab.controlplane.targets import (
    BUILD_ENVIRONMENT,
    BUILD_FLAGS,
    MODULES,
    BuildTarget,
    GoModule,
    file_name,
    ldflags,
    pinned_version,
)
from stowplan.lab.controlplane.toolchain import Toolchain, find_or_install

LOCK_POLL = 0.5
SHOWN_LINES = 15

# What Go prints when it cannot reach the module proxy, in its many wordings.
_NETWORK_TROUBLE = (
    "dial tcp",
    "no such host",
    "i/o timeout",
    "connection refused",
    "connection reset",
    "network is unreachable",
    "TLS handshake",
    "proxyconnect",
    "module lookup disabled",
)


class BuildError(Exception):
    """Go failed. The text is for the user who ran the build."""


def build(wanted: Sequence[BuildTarget], progress: BuildProgress) -> list[BuildTarget]:
    """Build those of the wanted targets that are missing; returns the ones that were built."""
    if not missing_targets(wanted):
        return []
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with build_lock(root, progress):
        # The previous holder of the lock may have built what is wanted here.
        missing = missing_targets(wanted)
        if not missing:
            return []
        _remove_leftovers(root)
        toolchain = find_or_install(root, progress.say)
        if any(not target.is_ours and target.module.name == "kubernetes" for target in missing):
            progress.say(ESTIMATE)
        staging = Path(tempfile.mkdtemp(prefix=".building-", dir=root))
        try:
            for module in MODULES:
                targets = [target for target in missing if target.module is module]
                if targets:
                    _compile(module, targets, toolchain, staging, progress)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return missing


@contextmanager
def build_lock(root: Path, progress: BuildProgress) -> Iterator[None]:
    """Hold the cache's lock; while another process holds it, wait and say so.

    The kernel drops the lock when its holder dies, so a killed build leaves nothing to clean up.
    """
    with (root / "lock").open("a+") as lock:
        waiting = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waiting:
                    lock.seek(0)
                    holder = lock.read().strip() or "unknown"
                    progress.step(f"Waiting for another build (process {holder}) to finish")
                    waiting = True
                time.sleep(LOCK_POLL)
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def _compile(
    module: GoModule,
    targets: Sequence[BuildTarget],
    toolchain: Toolchain,
    staging: Path,
    progress: BuildProgress,
) -> None:
    """One `go build` for all of a module's targets: they share most of their packages."""
    title = f"{module.name} {pinned_version(module)}"
    packages = [target.package for target in targets]
    run = _GoCommand(module, toolchain)

    progress.step(f"Fetching the source of {title}")
    # Listing the packages downloads their modules, and its length bounds what is to be compiled.
    listed = run("list", "-mod=readonly", "-deps", *packages, on_download=progress.advance)

    names = ", ".join(target.name for target in targets)
    progress.step(f"Compiling {names} ({title})", total=len(listed))
    run(
        "build",
        "-v",
        "-mod=readonly",
        *BUILD_FLAGS,
        "-ldflags",
        ldflags(module),
        "-o",
        f"{staging}{os.sep}",
        *packages,
        on_package=progress.advance,
    )

    destination = cache_directory()
    destination.mkdir(parents=True, exist_ok=True)
    for target in targets:
        (staging / target.built_as).replace(destination / file_name(target))


class _GoCommand:
    """Runs Go in a module's directory and hands on what it prints, line by line."""

    def __init__(self, module: GoModule, toolchain: Toolchain) -> None:
        self._module = module
        self._go = toolchain.go
        self._environment = {**toolchain.environment(), **BUILD_ENVIRONMENT}

    def __call__(
        self,
        *arguments: str,
        on_download: Callable[[str], None] | None = None,
        on_package: Callable[[str], None] | None = None,
    ) -> list[str]:
        """The names of packages that Go printed; raises BuildError when it fails."""
        packages: list[str] = []
        messages: list[str] = []
        with subprocess.Popen(
            [self._go, *arguments],
            cwd=self._module.directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    line = line.rstrip()
                    if line.startswith("go: downloading "):
                        if on_download is not None:
                            on_download(line.removeprefix("go: downloading "))
                    elif is_package_path(line):
                        packages.append(line)
                        if on_package is not None:
                            on_package(line)
                    elif line:
                        messages.append(line)
            except BaseException:
                process.terminate()
                raise
        if process.returncode != 0:
            raise BuildError(explain_failure(self._module.name, process.returncode, messages))
        return packages


def is_package_path(line: str) -> bool:
    """Whether a line of Go's output is the import path of a package and no message."""
    return bool(line) and not line.startswith("#") and not any(c in line for c in " \t:")


def explain_failure(module: str, status: int, messages: Sequence[str]) -> str:
    """Go's own last words and, where the cause is a common one, what to do about it."""
    text = "\n".join(messages[-SHOWN_LINES:])
    if any(sign in text for sign in _NETWORK_TROUBLE):
        advice = (
            "Go could not download the modules. Check the network connection and the GOPROXY "
            "setting (`go env GOPROXY`), then run this again: what was fetched is kept."
        )
    elif "no space left on device" in text:
        advice = (
            "The disk is full. The build needs about 6 GB for Go's caches and the binaries; "
            "`go env GOCACHE GOMODCACHE` shows where they are, STOWPLAN_CACHE moves the binaries."
        )
    elif "signal: killed" in text:
        advice = "The system killed the compiler, most likely for want of memory: 4 GB are needed."
    else:
        advice = "Nothing half-built was left behind; run the same command again to retry."
    return f"building {module} failed (go exited with {status}):\n{text}\n{advice}"


def _remove_leftovers(root: Path) -> None:
    """Staging directories of builds that were killed; safe because we hold the lock."""
    for leftover in root.glob(".building-*"):
        shutil.rmtree(leftover, ignore_errors=True)
