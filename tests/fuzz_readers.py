"""Readers of outside bytes, fuzzed: `python -m tests.fuzz --reader NAME --inputs 100000`.

Inputs are mutations of the kept ones in tests/data/fuzz, from a seed. A reader must return, or
raise what its callers expect. Anything else is a finding: its input is kept in fuzz-failures, and
belongs into tests/data/fuzz/READER once the cause is fixed; `make test` reads all of them again.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from stowplan.api.extender_codec import decode_filter_result, decode_priorities
from stowplan.api.kubeconfig_file import read_files
from stowplan.api.quantity import format_quantity, milli_value
from stowplan.api.watch import LineSplitter
from stowplan.config.load import as_text, parse_config
from stowplan.errors import StowplanError
from stowplan.explain.sources import read_file
from stowplan.extender.reading import read_args, read_binding_args, read_preemption_args
from stowplan.http.parser import ChunkedDecoder, ProtocolError, parse_request, parse_response
from stowplan.judge.answers import Judge
from stowplan.judge.documents import documents
from stowplan.loader.json_text import load_json
from stowplan.loader.malformed import Malformed
from stowplan.loader.yaml_text import load_yaml_all
from stowplan.sim.scenarios.document import read_scenario
from stowplan.sim.traces import load_trace

CORPUS = Path(__file__).parent / "data" / "fuzz"
FAILURES = Path(__file__).parents[1] / "fuzz-failures"
#: One input must not take longer than this.
PATIENCE_S = 5.0
_PIECES = (
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b"\\",
        b":",
        b",",
        b"\n",
        b"- ",
        b"---\n",
        b"&a ",
        b"*a",
        b"<<: ",
    ),
    *(b"\x00", b"\xff", b"\xef\xbb\xbf", b"\\ud800", b"\\u0000", b".inf", b"!!int ", b"!x ", b"\t"),
    *(
        b"9" * 400,
        b"1e999",
        b"-0",
        b"2001-99-99",
        b"null",
        b"true",
        b"y",
        b"0x",
        b"\r\n",
        b"\r\n\r\n",
    ),
)


class Reader(NamedTuple):
    """What reads, and the errors that its callers expect."""

    read: Callable[[bytes], object]
    expected: tuple[type[Exception], ...] = (StowplanError,)


def _by_file(suffix: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def written(data: bytes) -> object:
        file = Path(tempfile.gettempdir()) / f"stowplan-fuzz{suffix}"
        file.write_bytes(data)
        return read(file)

    return written


def _decide(data: bytes) -> None:
    for each in documents(data.splitlines(keepends=True)):
        Judge().answer_text(each.text, each.number, is_yaml=each.is_yaml)


def _http(data: bytes) -> None:
    for read in (parse_request, parse_response, ChunkedDecoder().feed):
        try:
            read(data)
        except ProtocolError:
            pass


def _extender(data: bytes) -> None:
    for read in (
        read_args,
        read_preemption_args,
        read_binding_args,
        decode_priorities,
        lambda body: decode_filter_result(body, names_were_sent=True),
    ):
        try:
            read(data)
        except (ValueError, RecursionError):
            pass


READERS = {
    "configuration": Reader(lambda data: parse_config(as_text(data, "f"), where="f")),
    "decide": Reader(_decide),
    "explain": Reader(lambda data: read_file("f", data)),
    "extender": Reader(_extender),
    "http": Reader(_http),
    "json": Reader(load_json, (Malformed,)),
    "kubeconfig": Reader(_by_file(".kubeconfig", lambda file: read_files([file]))),
    "quantity": Reader(
        lambda data: (format_quantity(data.decode("latin-1")), milli_value(data.decode("latin-1"))),
        (ValueError,),
    ),
    "scenario": Reader(_by_file(".yaml", read_scenario)),
    "trace-csv": Reader(_by_file(".csv", load_trace)),
    "trace-json": Reader(_by_file(".json", load_trace)),
    "trace-jsonl": Reader(_by_file(".jsonl", load_trace)),
    "watch": Reader(lambda data: [*LineSplitter().feed(data)], (StowplanError, ValueError)),
    "yaml": Reader(load_yaml_all, (Malformed,)),
}


def kept(name: str) -> list[bytes]:
    return [file.read_bytes() for file in sorted((CORPUS / name).glob("*"))] or [b""]


def mutations(seeds: list[bytes], rng: random.Random) -> Iterator[bytes]:
    while True:
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.randint(1, 4)):
            at = rng.randint(0, len(data))
            match rng.randrange(5):
                case 0:
                    data[at:at] = rng.choice(_PIECES)
                case 1:
                    del data[at : at + rng.randint(1, 20)]
                case 2 if data:
                    data[at % len(data)] = rng.randrange(256)
                case 3:
                    other = rng.choice(seeds)
                    start = rng.randint(0, len(other))
                    data[at:at] = other[start : start + rng.randint(1, 60)]
                case _:
                    data[at:at] = data[at : at + 40] * rng.randint(1, 5)
        yield bytes(data[:20_000])


def problem_of(reader: Reader, data: bytes) -> str:
    """What is wrong with how the input was read; "" if nothing is."""
    began = time.process_time()
    try:
        reader.read(data)
    except reader.expected:
        pass
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    took_s = time.process_time() - began
    return f"took {took_s:.1f} s" if took_s > PATIENCE_S else ""


def fuzz_reader(name: str, inputs: int, seed: int) -> int:
    """The number of findings; each is printed and kept."""
    reader, found = READERS[name], set[str]()
    stream = mutations(kept(name), random.Random(seed))
    for _ in range(inputs):
        data = next(stream)
        problem = problem_of(reader, data)
        if problem and problem[:60] not in found:
            found.add(problem[:60])
            FAILURES.mkdir(exist_ok=True)
            file = FAILURES / f"{name}-{seed}-{len(found)}"
            file.write_bytes(data)
            print(f"FAILED {name}: {problem[:300]}\n  input in {file}", flush=True)
    print(f"{name}: {inputs:,} inputs, {len(found)} findings; SEED={seed}", flush=True)
    return len(found)
