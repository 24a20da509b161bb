"""The version label of an image in an archive, by which a release recognises an old image."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tools.distributions import ReleaseError
from tools.release_images import require_version


def write_image(archive: Path, labels: dict[str, str] | None) -> None:
    """An OCI archive without layers: index, manifest and configuration."""
    with tarfile.open(archive, "w") as members:

        def add(name: str, document: Any) -> None:
            content = json.dumps(document).encode()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            members.addfile(member, io.BytesIO(content))

        def add_blob(document: Any) -> dict[str, str]:
            digest = hashlib.sha256(json.dumps(document).encode()).hexdigest()
            add(f"blobs/sha256/{digest}", document)
            return {"digest": f"sha256:{digest}"}

        config = add_blob({"config": {"Labels": labels}})
        manifest = add_blob({"config": config})
        add("index.json", {"manifests": [manifest]})


def test_the_label_is_the_version_of_the_release(tmp_path: Path) -> None:
    archive = tmp_path / "image.oci.tar"
    write_image(archive, {"org.opencontainers.image.version": "0.1.0"})
    require_version(archive, "0.1.0")
    with pytest.raises(
        ReleaseError, match=r"image\.oci\.tar: the label .* is '0.1.0', not '0.2.0'"
    ):
        require_version(archive, "0.2.0")
    write_image(archive, None)
    with pytest.raises(ReleaseError, match=r"is None, not '0\.1\.0'"):
        require_version(archive, "0.1.0")
