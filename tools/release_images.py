"""Images of a release as archives, which `podman load`, `docker load` and skopeo read.

docker or buildah builds them, by tools/image.sh. The version label of each archive is checked.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tools.distributions import REPOSITORY, ReleaseError, run
from tools.krew import ARCHITECTURES
from tools.pex_preamble import machine_words

#: A stage of the Containerfile, and what its image's tag ends with.
VARIANTS: Final = {"stowplan": "", "static-pod": "-static-pod"}
_VERSION: Final = "org.opencontainers.image.version"


def build_images(
    folder: Path, packages: Mapping[str, Path], *, version: str, base: str, epoch: int
) -> list[str]:
    """Write an archive for each package and variant; return notes about what was left out."""
    script = REPOSITORY / "tools" / "image.sh"
    if subprocess.run([script, "check"], capture_output=True).returncode != 0:
        return ["no images: neither docker nor buildah is here"]
    has_docker = (
        shutil.which("docker") is not None
        and subprocess.run(["docker", "info"], capture_output=True).returncode == 0
    )
    notes = []
    for machine, package in packages.items():
        is_foreign = machine != machine_words(platform.machine())
        architecture = ARCHITECTURES[machine]
        for variant, suffix in VARIANTS.items():
            image = f"stowplan:{version}{suffix}"
            archive = folder / f"stowplan-{version}{suffix}-linux-{architecture}.oci.tar"
            try:
                run(
                    [script, package, image, *([base] if base else [])],
                    VARIANT=variant,
                    MACHINE=architecture if is_foreign else "",
                    SOURCE_DATE_EPOCH=str(epoch),
                )
            except ReleaseError as error:
                # The base, or an emulator to run its Python, may be missing for another machine.
                if not is_foreign:
                    raise
                notes.append(f"no image {archive.name}: {error}")
                continue
            if has_docker:
                run(["docker", "save", "--output", archive, image])
            else:
                run(["buildah", "push", f"localhost/{image}", f"oci-archive:{archive}:{image}"])
            require_version(archive, version)
    return notes


def require_version(archive: Path, version: str) -> None:
    labels = image_config(archive)["config"].get("Labels") or {}
    if labels.get(_VERSION) != version:
        raise ReleaseError(
            f"{archive.name}: the label {_VERSION} is {labels.get(_VERSION)!r}, not {version!r}"
        )


def image_config(archive: Path) -> Any:
    """Return the configuration of the image in an OCI archive."""
    with tarfile.open(archive) as members:

        def read(name: str) -> Any:
            member = members.extractfile(name)
            assert member is not None
            return json.load(member)

        def blob(descriptor: Any) -> Any:
            return read(f"blobs/{descriptor['digest'].replace(':', '/')}")

        return blob(blob(read("index.json")["manifests"][0])["config"])
