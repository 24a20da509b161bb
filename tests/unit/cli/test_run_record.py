"""`stowplan run --record` and its options: mistakes end the command before it schedules."""

from __future__ import annotations

from pathlib import Path

import pytest

from stowplan.cli.main import main

ALONE = "is for recordings. Fix: add --record DIR, or leave it out"


def run(*argv: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(["run", *argv])
    return ended.value.code


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (("--record-keep", "3"), f"--record-keep: {ALONE}"),
        (("--record-size", "256Mi"), f"--record-size: {ALONE}"),
        (("--record-after", "24h"), f"--record-after: {ALONE}"),
        (("--record-hash-names",), f"--record-hash-names: {ALONE}"),
        (("--record-hash-key", "key"), f"--record-hash-key: {ALONE}"),
        (
            ("--record", "r", "--record-hash-key", "key"),
            "key: cannot be read: No such file or directory",
        ),
        (
            ("--record", "r", "--record-size", "1k"),
            "--record-size: is too small. Fix: give at least 1Mi",
        ),
        (
            ("--record", "r", "--record-after", "-5s"),
            "--record-after: is negative. Fix: give 0 for no limit",
        ),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    argv: tuple[str, ...],
    why: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*argv, "--write-config-to", "written.yaml") == 2
    assert capsys.readouterr().err == f"Error: {why}\n"
    assert list(tmp_path.iterdir()) == []


def test_all_of_them_together(tmp_path: Path) -> None:
    written = tmp_path / "written.yaml"
    options = ("--record-size", "1Mi", "--record-after", "0", "--record-keep", "0")
    key = tmp_path / "key"
    key.write_text("a secret of thirty bytes or so")
    hashing = ("--record-hash-names", "--record-hash-key", str(key))
    given = ("--record", str(tmp_path / "r"), *options, *hashing)
    assert run(*given, "--write-config-to", str(written)) == 0
    assert written.exists()
