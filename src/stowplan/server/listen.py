"""Error messages for a port that cannot be opened, for every command that listens."""

from __future__ import annotations

import os

from stowplan.errors import ConfigError


def cannot_listen(error: OSError, host: str, port: int, *, flag: str) -> ConfigError:
    """The error to raise when binding a socket failed; `flag` is where the port came from."""
    # Resolver errors carry negative numbers that strerror would misread.
    known = error.errno is not None and error.errno > 0
    reason = os.strerror(error.errno or 0) if known else (error.strerror or str(error))
    return ConfigError(
        f"cannot listen on {host}:{port}: {reason}; choose another address or port", where=flag
    )
