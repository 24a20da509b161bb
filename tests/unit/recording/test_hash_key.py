"""The secret of hashed names: what a file must hold, and what recordings reveal of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stowplan.api.objects import Node
from stowplan.errors import ConfigError
from stowplan.recording.hash_key import read_secret
from stowplan.recording.scrub import Hashed

SECRET = b"a secret of thirty bytes or so"


def test_line_breaks_around_a_secret_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "key"
    for text in (SECRET, SECRET + b"\n", b" " + SECRET + b"\r\n"):
        file.write_bytes(text)
        assert read_secret(file) == SECRET


@pytest.mark.parametrize("text", [b"", b"fifteen bytes..", b" " * 40])
def test_a_secret_that_can_be_found_by_trial_is_refused(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "key"
    file.write_bytes(text)
    with pytest.raises(ConfigError, match=r"at least 16 bytes\. Fix: openssl rand -hex 32") as why:
        read_secret(file)
    assert str(file) in str(why.value)


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
