"""The secret of hashed names: what a file must hold, and what recordings reveal of it."""

from __future__ import annotations

from codecs import BOM_UTF8
from pathlib import Path

import msgspec
import pytest

from stowplan.api.objects import Node
from stowplan.errors import ConfigError
from stowplan.recording.hash_key import read_secret
from stowplan.recording.scrub import Hashed

SECRET = b"a secret of thirty bytes or so"


def test_what_editors_put_around_a_secret_is_not_part_of_it(tmp_path: Path) -> None:
    file = tmp_path / "key"
    for text in (SECRET, SECRET + b"\n", b" " + SECRET + b"\r\n", BOM_UTF8 + SECRET + b"\n"):
        file.write_bytes(text)
        assert read_secret(file) == SECRET


@pytest.mark.parametrize(
    "text", [b"", b"fifteen bytes..", b" " * 40, BOM_UTF8 + b"thirteen bytes"[:13]]
)
def test_a_secret_that_can_be_found_by_trial_is_refused(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "key"
    file.write_bytes(text)
    with pytest.raises(ConfigError, match=r"16 bytes\. Fix: \(umask 077; openssl") as why:
        read_secret(file)
    assert str(file) in str(why.value)


def test_a_secret_among_the_recordings_is_refused(tmp_path: Path) -> None:
    folder, link = tmp_path / "r", tmp_path / "link"
    (folder / "keys").mkdir(parents=True)
    link.symlink_to(folder)
    outside = tmp_path / "r.key"
    for file in (folder / "key", folder / "keys" / "key", outside):
        file.write_bytes(SECRET)
    for file in (
        folder / "key",
        folder / "keys" / "key",
        link / "key",
        folder / "keys" / ".." / "key",
    ):
        with pytest.raises(ConfigError) as why:
            read_secret(file, folder=folder)
        assert str(why.value) == (
            f"{file}: is in the folder of the recordings, {folder}. Fix: move it out"
        )
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for other in (folder, tmp_path / "missing", loop, None):
        assert read_secret(outside, folder=other) == SECRET
    with pytest.raises(ConfigError, match="cannot be read: Too many levels"):
        read_secret(loop, folder=folder)


def test_an_endless_file_is_refused() -> None:
    with pytest.raises(ConfigError, match="is larger than 1 MiB"):
        read_secret(Path("/dev/zero"))


def test_equal_secrets_make_equal_hashes() -> None:
    node = msgspec.convert({"metadata": {"name": "db-7"}}, Node)
    one, same, long, random, other = (
        Hashed(each) for each in (SECRET, SECRET, SECRET * 9, None, None)
    )
    assert (one(node), one.key_id) == (same(node), same.key_id)
    assert len({each(node) for each in (one, long, random, other)}) == 4
    assert len({each.key_id for each in (one, long, random, other)}) == 4
    assert not any(SECRET.hex()[:16] in each.key_id for each in (one, same))
