"""`stowplan decide`: questions about pods on standard input, answers on standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import click
import msgspec

from stowplan.errors import ConfigError
from stowplan.judge import Judge, Stream

EXIT_SOME_FAILED: Final = 1
_BOM: Final = b"\xef\xbb\xbf"


@click.command()
@click.argument("file", default="-")
@click.option(
    "--stream",
    is_flag=True,
    help="Lines share one cluster: each applies and deletes objects, and may ask about a pod.",
)
@click.option(
    "--defaults",
    is_flag=True,
    help="Complete objects as the API server would before deciding; else they are taken as given.",
)
def decide(file: str, stream: bool, defaults: bool) -> int:
    """Say which nodes would take a pod, and why the others not.

    Reads a JSON object a line from FILE (- is standard input) and prints one for each:

    \b
      {"objects": [{"apiVersion": "v1", "kind": "Node", ...}, ...], "pod": {...}}
      {"id": 1, "nodes": {"a": {"code": "Success"}, "b": {"code": "Unschedulable", ...}},
       "scores": {"a": {"NodeResourcesFit": 90, ...}}, "totals": {"a": 390}, "best": ["a"]}

    A line that cannot be answered gets {"id", "error"}, and the exit code is 1 in the end. The
    whole format is in docs/decide.md.
    """
    answering = (Stream if stream else Judge)(defaults=defaults)
    out = sys.stdout.buffer
    failed = False
    with _opened(file) as lines:
        for text in lines:
            said = answering.answer_text(text)
            failed = failed or "error" in said
            out.write(msgspec.json.encode(said) + b"\n")
            out.flush()
    return EXIT_SOME_FAILED if failed else 0


@contextmanager
def _opened(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(file).open("rb") as lines:
            yield lines
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=file) from None
