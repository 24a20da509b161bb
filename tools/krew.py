"""The kubectl plugin as krew installs it: an archive for each machine, and the manifest.

`make release` calls it with the packages that it has built. The plugin is the package under another
name; `cli.main` finds out by that name that kubectl started it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from tools.archives import sha256, write_tar_gz

REPOSITORY: Final = Path(__file__).parents[1]
#: The names of machines in wheels, and Go's.
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_COMPLETE: Final = b"""\
#!/bin/sh
# kubectl runs this to complete `kubectl stowplan`.
_STOWPLAN_COMPLETE=kubectl_complete exec kubectl-stowplan "$@"
"""
_SHORT: Final = "Show why pods are placed where they are, pin them"
_DESCRIPTION: Final = """\
Shows which nodes fit a pod (decide), why a pod is pending and what would help (explain), pins pods
to nodes and moves them (pin, pins, move), checks scheduler configurations (config), simulates
schedulers (simulate) and runs one (run). Makes the decisions of kube-scheduler.
"""
_CAVEATS: Final = """\
Needs CPython 3.11, 3.12, 3.13 or 3.14 as python3 or pythonX.Y on the PATH, and glibc 2.28 or newer.
For completion, copy kubectl_complete-stowplan from the plugin's folder to a folder of the PATH:
  cp "${KREW_ROOT:-$HOME/.krew}"/store/stowplan/*/kubectl_complete-stowplan ~/.local/bin/
"""


def write_archive(folder: Path, package: Path, *, version: str, machine: str, epoch: int) -> Path:
    """Write the archive of a package for a machine into a folder, and return its path."""
    archive = folder / f"kubectl-stowplan-{version}-linux-{ARCHITECTURES[machine]}.tar.gz"
    members = {
        "LICENSE": (REPOSITORY / "LICENSE").read_bytes(),
        "kubectl-stowplan": package.read_bytes(),
        "kubectl_complete-stowplan": _COMPLETE,
    }
    write_tar_gz(archive, members, epoch=epoch)
    return archive


def manifest(archives: Mapping[str, Path], *, version: str, repository: str) -> str:
    """Return the manifest for archives, by machine, of a release of the repository."""
    return yaml.safe_dump(
        {
            "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
            "kind": "Plugin",
            "metadata": {"name": "stowplan"},
            "spec": {
                "version": f"v{version}",
                "homepage": repository,
                "shortDescription": _SHORT,
                "description": _DESCRIPTION,
                "caveats": _CAVEATS,
                "platforms": [
                    {
                        "selector": {
                            "matchLabels": {"os": "linux", "arch": ARCHITECTURES[machine]}
                        },
                        "uri": f"{repository}/releases/download/v{version}/{archive.name}",
                        "sha256": sha256(archive),
                        "bin": "kubectl-stowplan",
                    }
                    for machine, archive in archives.items()
                ],
            },
        },
        sort_keys=False,
    )
