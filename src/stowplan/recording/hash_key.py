"""The secret in a user's file with which recorders hash names.

Recorders with the same secret make equal hashes, so a recording can be continued by the next one.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from os.path import realpath
from pathlib import Path
from typing import Final

from stowplan.errors import ConfigError
from stowplan.loader.files import read_file

#: Bytes. With a shorter secret, names could be found by trying all secrets.
_SHORTEST: Final = 16
_LONGEST: Final = 1 << 20


def read_secret(file: Path, *, folder: Path | None = None) -> bytes:
    """The secret in a file, without a byte order mark, spaces and line breaks around it.

    Raises ConfigError, also if the file is in `folder`, that of the recordings: who gets these
    must not get the secret.
    """
    secret = read_file(file, limit=_LONGEST).removeprefix(BOM_UTF8).strip()
    if folder is not None and Path(realpath(file)).is_relative_to(realpath(folder)):
        raise ConfigError(
            f"is in the folder of the recordings, {folder}. Fix: move it out", where=str(file)
        )
    if len(secret) < _SHORTEST:
        raise ConfigError(
            f"must hold a secret of at least {_SHORTEST} bytes."
            " Fix: (umask 077; openssl rand -hex 32 > FILE)",
            where=str(file),
        )
    return secret
