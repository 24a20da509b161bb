"""The secret in a user's file with which recorders hash names.

Recorders with the same secret make equal hashes, so a recording can be continued by the next one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from stowplan.errors import ConfigError
from stowplan.loader.files import read_file

#: Bytes. With a shorter secret, names could be found by trying all secrets.
_SHORTEST: Final = 16
_LONGEST: Final = 1 << 20


def read_secret(file: Path) -> bytes:
    """The secret in a file, without the spaces and line breaks around it. Raises ConfigError."""
    secret = read_file(file, limit=_LONGEST).strip()
    if len(secret) < _SHORTEST:
        raise ConfigError(
            f"must hold a secret of at least {_SHORTEST} bytes. Fix: openssl rand -hex 32 > FILE",
            where=str(file),
        )
    return secret
