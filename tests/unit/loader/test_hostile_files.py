"""Files that no reader may trust, given to every command that reads files.

Each ends in one line with the file, the position and the reason. Commands run in this process,
except those which used to end it by a signal: a crash must not take the test run with it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stowplan.cli.main import main

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
#: The content, and what is said of it: by a line and column, and a reason.
HOSTILE: dict[str, tuple[bytes, str]] = {
    "digits.yaml": (b"a: " + b"9" * 5000, r"1.*a number of 5000 digits; the limit is 300"),
    "digits.json": (b'{"a": %s}' % (b"9" * 5000), "1.*a number of 5000 digits; the limit is 300"),
    "lists.json": (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "1.*nested too deeply"),
    "objects.json": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "1.*nested too deeply"),
    "lists.yaml": (b"a:\n- " + b"- " * 100_000 + b"x\n", "2.*nested too deeply"),
    "bomb.yaml": (
        BOMB.encode(),
        "[67].*aliases up to here stand for more than [01,]+ values",
    ),
    "itself.yaml": (b"a: &a\n- *a\n", "2.*an alias contains itself"),
    "surrogate.json": (b'{"a": "\\ud800"}', "1.*(surrogate pair|Unicode character escape)"),
    "surrogate.yaml": (b'a: "\\ud800"\n', "1.*(surrogate pair|Unicode character escape)"),
    "latin.json": (b'{"pods": [],\n"a": "\xff"}', "2.*is not UTF-8 text: invalid start byte"),
    "latin.yaml": (b"a: 1\nb: \xff\n", "2.*is not UTF-8 text: invalid start byte"),
    "null.yaml": (b"a: 1\nb: \x00\n", "2.*control characters are not allowed"),
    "infinite.yaml": (b"a: 1\nb: .inf\n", r"2.*\.inf is no number in JSON"),
    "python.yaml": (b"a: !!python/object/apply:os.system [ls]\n", "1.*constructor for the tag"),
    "binary.yaml": (b"a: !!binary aGk=\n", "1.*constructor for the tag"),
    "key.yaml": (b"? [a, b]\n: c\n", "1.*a list cannot be a key"),
    "tab.yaml": (b"a:\n\tb: 1\n", "2.*(tab character|cannot start any token)"),
    "packed.yaml": (b"\x1f\x8b\x08\x00junk", "is compressed by gzip; unpack it first"),
}
COMMANDS = {
    "check": ("config", "check"),
    "migrate": ("config", "migrate"),
    "kubeconfig": ("pins", "--kubeconfig"),
    "scenario": ("simulate",),
    "explain": ("explain", "web", "-f"),
    "audit": ("audit", "-f"),
    "extender": ("extender", "--config"),
    "allow-metrics": ("run", "--allow-metric-labels-manifest"),
}
#: `audit` reads JSON without a look at fields that it does not know, and the extender knows these
#: tags and words the position in its own way.
_PASSED_OVER = {("audit", name) for name in HOSTILE if name.endswith(".json")} | {
    ("extender", name) for name in ("python.yaml", "binary.yaml", "infinite.yaml", "key.yaml")
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("command", COMMANDS)
def test_one_line_with_file_position_and_reason(
    command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, expected = HOSTILE[name]
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(SystemExit) as ended:
        main([*COMMANDS[command], str(file)])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert len(said.splitlines()) == 1, said
    if (command, name) not in _PASSED_OVER:
        assert str(file) in said
        assert re.search(expected, said), said


@pytest.mark.parametrize("name", ["objects.json", "lists.yaml", "bomb.yaml"])
def test_no_process_ends_by_a_signal(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(HOSTILE[name][0])
    for command in ("kubeconfig", "scenario", "explain"):
        ran = subprocess.run(
            [sys.executable, "-m", "stowplan", *COMMANDS[command], str(file)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ran.returncode == 2, (command, ran.returncode, ran.stderr[-300:])
        assert len(ran.stderr.splitlines()) == 1


def test_dates_are_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "date.yaml"
    for date in ("2001-99-99", "2001-01-01"):
        file.write_text(f"apiVersion: {date}\nkind: Config\n")
        for command, reason in {
            "check": f'apiVersion: Invalid value: "{date}"',
            "migrate": f"found {date} Config",
            "kubeconfig": f"apiVersion: '{date}' is not v1",
            "explain": f'version "{date}"',
        }.items():
            with pytest.raises(SystemExit) as ended:
                main([*COMMANDS[command], str(file)])
            assert ended.value.code == 2
            assert reason in capsys.readouterr().err


@pytest.mark.parametrize("command", [*COMMANDS])
def test_files_that_are_none(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path, reason in {
        tmp_path: "cannot be read: Is a directory|there is no such file",
        loop: "cannot be read: Too many levels of symbolic links|no such file",
        Path("/dev/zero"): "is larger than |there is no such file",
    }.items():
        with pytest.raises(SystemExit) as ended:
            main([*COMMANDS[command], str(path)])
        said = capsys.readouterr().err
        assert (ended.value.code, len(said.splitlines())) == (2, 1), said
        assert re.search(reason, said)


@pytest.mark.parametrize("argv", [("config", "check", "-"), ("decide", "-")])
def test_standard_input_without_an_end(argv: tuple[str, ...]) -> None:
    with Path("/dev/zero").open("rb") as endless:
        ran = subprocess.run(
            [sys.executable, "-m", "stowplan", *argv],
            stdin=endless,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1)
    assert re.match(r"Error: <stdin>: (line 1 )?is (larger|longer) than \d+ MiB", ran.stderr)


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(
        [sys.executable, "-m", "stowplan", "config", "check", str(pipe)],
        stderr=subprocess.PIPE,
        text=True,
    ) as reading:
        pipe.write_text("kind: Pod\n")
        assert reading.stderr is not None
        assert "apiVersion: Required value" in reading.stderr.read()
        assert reading.wait() == 2
