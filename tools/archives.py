"""Archives that are the same, byte for byte, whenever and wherever they are written."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path


def write_tar_gz(archive: Path, members: Mapping[str, bytes], *, epoch: int) -> None:
    """Write a .tar.gz of files, by their names in it; a file that begins with #! is executable."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as writer:
        for name, content in sorted(members.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mtime = epoch
            member.mode = 0o755 if content.startswith(b"#!") else 0o644
            writer.addfile(member, io.BytesIO(content))
    archive.write_bytes(gzip.compress(tar.getvalue(), compresslevel=6, mtime=epoch))


def sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
