"""Output files that cannot be written are refused, and the check leaves nothing behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from stowplan.cli.main import cli
from stowplan.errors import ConfigError
from stowplan.output_file import LineFile, check_output_file, check_output_files, write_file


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        check_output_file(path, "--html")
    return str(caught.value)


def test_a_file_that_can_be_written_is_neither_made_nor_changed(tmp_path: Path) -> None:
    there, new = tmp_path / "there", tmp_path / "new"
    there.write_text("text")
    for path in (there, new, Path(os.devnull), None):
        check_output_file(path, "--html")
    assert there.read_text() == "text"
    assert not new.exists()


def test_what_is_wrong_and_what_to_do(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none" / "page.html") == (
        f"--html {tmp_path}/none/page.html: the folder {tmp_path}/none does not exist. "
        f"Fix: mkdir -p {tmp_path}/none"
    )
    assert refusal(tmp_path).endswith(": is a folder. Fix: name a file in it")
    (tmp_path / "file").write_text("")
    assert "does not exist" in refusal(tmp_path / "file" / "page.html")
    assert "cannot be written: File name too long. Fix: " in refusal(tmp_path / ("x" * 300))


@pytest.mark.parametrize(
    ("command", "first", "second"),
    [
        ("replay", "--decisions", "--html"),
        ("replay", "--html", "--result"),
        ("simulate", "--decisions", "--result"),
        ("compare", "--html", "--pods"),
        ("bench", "--html", "--runs"),
    ],
)
def test_two_outputs_are_two_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, first: str, second: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    arguments = [command, "none.jsonl.gz", second, "same.csv", first, "link/same.csv"]
    refused = CliRunner().invoke(cli, arguments).exception
    assert isinstance(refused, ConfigError)
    assert str(refused).startswith(f"{first} and {second}: are the same file, ")
    assert str(refused).endswith("same.csv. Fix: name two files")
    check_output_files([(Path(os.devnull), first), (Path(os.devnull), second)])


@pytest.mark.parametrize("lines", [1, 10_000])
def test_a_full_disk_is_reported_when_the_file_is_closed(lines: int) -> None:
    file = LineFile(Path("/dev/full"))
    for _ in range(lines):
        file.write("0123456789\n")
    with pytest.raises(ConfigError) as caught:
        file.close()
    assert str(caught.value) == (
        "/dev/full: is incomplete: No space left on device. Fix: name a file on another disk"
    )


def test_a_full_disk_does_not_hide_why_the_work_ended() -> None:
    file = LineFile(Path("/dev/full"), flushes_lines=True)
    file.write("line\n")
    assert not file.is_complete
    problem = KeyError("why")
    file.__exit__(KeyError, problem, None)  # raises nothing


def test_lines_that_are_flushed_can_be_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with LineFile(path, flushes_lines=True) as file:
        file.write("line\n")
        assert path.read_text() == "line\n"
    with pytest.raises(ConfigError, match=r"is a folder|Is a directory"):
        LineFile(tmp_path)


def test_a_file_is_replaced_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk, the old file stays."""
    path = tmp_path / "page.html"
    path.write_text("old")
    path.chmod(0o640)
    link = tmp_path / "link.html"
    link.symlink_to(path)
    write_file(link, b"new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)
    assert link.is_symlink()

    def full(part: Path, content: bytes) -> int:
        part.touch()
        raise OSError(errno.ENOSPC, "full", str(part))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        with pytest.raises(ConfigError, match=r"page\.html: cannot be written: No space left"):
            write_file(path, b"newer")
    assert path.read_text() == "new"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link.html", "page.html"]


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EACCES, errno.EROFS])
def test_a_file_that_cannot_be_replaced_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Such as a file that is mounted into a container."""
    path = tmp_path / "page.html"
    path.write_text("old")

    def busy(part: Path, target: Path) -> Path:
        raise OSError(number, "busy", str(target))

    monkeypatch.setattr(Path, "replace", busy)
    write_file(path, b"new")
    assert path.read_text() == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]
    write_file(Path(os.devnull), b"new")


def test_a_file_with_two_names_keeps_both(tmp_path: Path) -> None:
    path, other = tmp_path / "page.html", tmp_path / "other.html"
    path.write_text("old")
    other.hardlink_to(path)
    write_file(path, b"new")
    assert other.read_text() == "new"
