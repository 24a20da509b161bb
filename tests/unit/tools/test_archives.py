"""Archives of a release are the same, byte for byte, and programs in them can be started."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tools.archives import sha256, write_tar_gz


def test_the_same_members_give_the_same_bytes(tmp_path: Path) -> None:
    members = {"bin/b": b"#!/bin/sh\n", "a.txt": b"text"}
    write_tar_gz(tmp_path / "one.tar.gz", members, epoch=1_700_000_000)
    write_tar_gz(tmp_path / "two.tar.gz", dict(reversed(members.items())), epoch=1_700_000_000)
    assert sha256(tmp_path / "one.tar.gz") == sha256(tmp_path / "two.tar.gz")
    with tarfile.open(tmp_path / "one.tar.gz") as archive:
        found = [(each.name, each.mode, each.mtime, each.uid) for each in archive]
    assert found == [("a.txt", 0o644, 1_700_000_000, 0), ("bin/b", 0o755, 1_700_000_000, 0)]
