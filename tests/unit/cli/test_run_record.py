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


def test_a_key_among_the_recordings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("r")
    folder.mkdir()
    (folder / "key").write_text("a secret of thirty bytes or so")
    why = "Error: r/key: is in the folder of the recordings, r. Fix: move it out\n"
    for argv in (
        ("run", "--record", "r", "--record-hash-key", "r/key"),
        ("record", "r", "--hash-key", "r/key"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(argv)
        assert (ended.value.code, capsys.readouterr().err) == (2, why)


@pytest.mark.parametrize(
    "argv", [("record", "r/", "--hash-key", ""), ("run", "--record", "r", "--record-hash-key", "")]
)
def test_a_file_without_a_name(argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert "hash-key': the path is empty. Fix: name a file or a folder" in capsys.readouterr().err


def test_all_of_them_together(tmp_path: Path) -> None:
    written = tmp_path / "written.yaml"
    options = ("--record-size", "1Mi", "--record-after", "0", "--record-keep", "0")
    key = tmp_path / "key"
    key.write_text("a secret of thirty bytes or so")
    hashing = ("--record-hash-names", "--record-hash-key", str(key))
    given = ("--record", str(tmp_path / "r"), *options, *hashing)
    assert run(*given, "--write-config-to", str(written)) == 0
    assert written.exists()
