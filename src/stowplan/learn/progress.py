"""Which lessons were passed: a file beside the learner's work, `stowplan-lessons/progress.json`.

The file is kept beside the lessons, and not in the user's settings, so that moving, copying or
deleting the lessons does the same to their progress.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stowplan.errors import ConfigError
from stowplan.loader.json_text import load_json

FILE_NAME: Final = "progress.json"


@dataclass(frozen=True, slots=True)
class Passed:
    """When a lesson was passed, and on which target."""

    at: str
    on: str


class LessonProgress:
    """Read when made; every change is written at once."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._passed = _read(self._path)

    def passed(self, key: str) -> Passed | None:
        return self._passed.get(key)

    def note(self, key: str, passed: Passed) -> None:
        self._passed[key] = passed
        self._write()

    def forget(self, key: str) -> None:
        if self._passed.pop(key, None) is not None:
            self._write()

    def _write(self) -> None:
        lessons = {
            key: {"at": each.at, "on": each.on} for key, each in sorted(self._passed.items())
        }
        text = json.dumps({"passed": lessons}, indent=2) + "\n"
        fresh = self._path.with_name(f"{FILE_NAME}.{os.getpid()}")
        try:
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(self._path)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            raise ConfigError(f"cannot write it: {error.strerror}", where=str(self._path)) from None


def _read(path: Path) -> dict[str, Passed]:
    try:
        read: Any = load_json(path.read_bytes())
        return {
            str(key): Passed(str(each["at"]), str(each["on"]))
            for key, each in read["passed"].items()
        }
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"cannot read it: {error.strerror}", where=str(path)) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(
            "this is not a progress file of stowplan learn; delete the file to start over "
            "(your lessons stay)",
            where=str(path),
        ) from None
