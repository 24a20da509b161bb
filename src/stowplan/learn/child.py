"""A check in a process of its own, with a limit of real time, and of memory.

`check_in_child` starts `python -m stowplan.learn.child`, passes on what the learner's program
prints, and reads the verdict that the child leaves in a file. An endless loop ends with words that
name its line: the child interrupts itself when its time is up. A child that cannot even do that is
killed by its parent a little later.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from bdb import BdbQuit
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any, Final

from stowplan.errors import StowplanError
from stowplan.learn.course import Course, Lesson
from stowplan.learn.faults import LearnerErrors
from stowplan.learn.texts import Texts
from stowplan.learn.work_check import CheckResult, check_work
from stowplan.loader.json_text import load_json

#: Real time passes there, and a real control plane takes a while to start.
_TIMES_SLOWER: Final = {"virtual": 1, "embedded": 4, "real": 10}
_GRACE_S: Final = 15.0
_MEMORY: Final = 4 << 30
_TICK_S: Final = 0.25
#: Code that catches every exception is interrupted again; after some tries the process exits.
_PAUSE_TICKS: Final = 12
_SWALLOWED_TICKS: Final = 2 * _PAUSE_TICKS
_SHOWN_LINES: Final = 200
_LINE_BYTES: Final = 2000


@dataclass(frozen=True, slots=True)
class Order:
    """The child's task, passed on the command line."""

    lessons: str
    lesson: str
    file: str
    on: str
    language: str
    limit_s: float
    verdict: str


class TimeIsUp(KeyboardInterrupt):
    """An interrupt, as an event loop lets only these through; carries what to tell."""


def limit_of(lesson: Lesson, on: str) -> float:
    return lesson.time_limit_s * _TIMES_SLOWER[on]


def check_in_child(
    lesson: Lesson,
    file: Path,
    *,
    on: str,
    language: str,
    show: Callable[[str], None],
    limit_s: float | None = None,
) -> CheckResult:
    """The verdict; `show` is given each line that the learner's program prints, as it does."""
    limit_s = limit_of(lesson, on) if limit_s is None else limit_s
    with tempfile.TemporaryDirectory(prefix="stowplan-learn-") as scratch:
        verdict = Path(scratch) / "verdict.json"
        lessons, path = str(lesson.folder.parent), str(file.resolve())
        order = Order(lessons, lesson.key, path, on, language, limit_s, str(verdict))
        code = _run(order, Texts(language), show)
        try:
            told: dict[str, Any] = load_json(verdict.read_bytes())
        except (OSError, ValueError):
            key = "killed" if code == -signal.SIGKILL else "died"
            return CheckResult((Texts(language)(key, seconds=f"{limit_s:g}", code=code),))
    if "cannot" in told:
        raise StowplanError(told["cannot"])
    return CheckResult(tuple(told["mistakes"]), tuple(told["notes"]))


def _run(order: Order, texts: Texts, show: Callable[[str], None]) -> int:
    # -P: a learner's file called random.py is not to be taken for Python's. The path is ours, so
    # that this works from a single file (pex) and from a checkout as well.
    command = [sys.executable, "-P", "-m", "stowplan.learn.child", json.dumps(asdict(order))]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8",
    }
    with subprocess.Popen(  # noqa: S603 - ourselves
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
    ) as child:
        assert child.stdout is not None
        is_over = threading.Event()
        seconds = int(order.limit_s + _GRACE_S)
        threading.Thread(target=_kill_in, args=(seconds, child, is_over), daemon=True).start()
        try:
            _pass_on(child.stdout, texts, show)
            return child.wait()
        finally:
            is_over.set()
            child.kill()  # where it is still there, which is after Ctrl-C only


def _kill_in(seconds: int, child: subprocess.Popen[bytes], is_over: threading.Event) -> None:
    """Kill the child after some seconds of running time; time asleep does not count."""
    for _ in range(seconds):
        if is_over.wait(1.0):
            return
    child.kill()


def _pass_on(out: IO[bytes], texts: Texts, show: Callable[[str], None]) -> None:
    left_out = 0
    for number, line in enumerate(iter(lambda: out.readline(_LINE_BYTES), b"")):
        if number < _SHOWN_LINES:
            show(line.decode("utf-8", errors="replace").rstrip("\r\n"))
        else:
            left_out += 1
    if left_out:
        show(texts("more_lines", count=left_out))


# The child


def main(argv: Sequence[str]) -> None:
    """Does not return: threads of the learner's are not waited for."""
    order = Order(**load_json(argv[0]))
    try:
        told = _do(order)
    except KeyboardInterrupt:
        os._exit(130)
    _leave(order, told)


def _do(order: Order) -> dict[str, Any]:
    if order.on != "real":
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = _MEMORY if hard == resource.RLIM_INFINITY else min(_MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    if "PYTHONBREAKPOINT" not in os.environ:
        sys.breakpointhook = _no_debugger
    _show_logs()
    lesson = Course(Path(order.lessons)).find(order.lesson)
    _set_alarm(order)
    try:
        verdict = check_work(lesson, Path(order.file), on=order.on, language=order.language)
    except TimeIsUp as up:
        return _verdict(CheckResult((str(up),)))
    except StowplanError as error:
        return {"cannot": str(error)}
    except Exception:
        traceback.print_exc()
        return _verdict(CheckResult((Texts(order.language)("defect"),)))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return _verdict(verdict)


def _no_debugger(*_: object, **__: object) -> None:
    """Quit at the line of breakpoint() itself: a debugger has no input here."""
    raise BdbQuit


def _verdict(verdict: CheckResult) -> dict[str, Any]:
    return {"mistakes": verdict.mistakes, "notes": verdict.notes}


def _leave(order: Order, told: dict[str, Any]) -> None:
    Path(order.verdict).write_text(json.dumps(told), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)


def _set_alarm(order: Order) -> None:
    """Count ticks, not seconds, so that time in which the machine slept does not count."""
    texts = Texts(order.language)
    faults = LearnerErrors(Path(order.file), texts)
    ticks = 0
    allowed = max(1, round(order.limit_s / _TICK_S))

    def tick(number: int, frame: FrameType | None) -> None:
        nonlocal ticks
        ticks += 1
        if ticks < allowed:
            return
        line = faults.busy_line(frame) or _waiting_line(faults)
        place = f"{faults.place(line)}: " if line else ""
        quoted = faults.quote(line) if line else ""
        words = texts("time_is_up", seconds=f"{order.limit_s:g}")
        up = TimeIsUp(f"{place}{words}{quoted}")
        if ticks > allowed + _SWALLOWED_TICKS:
            _leave(order, _verdict(CheckResult((str(up),))))
        if (ticks - allowed) % _PAUSE_TICKS == 0:  # and time to clean up in between
            raise up

    signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, _TICK_S, _TICK_S)


def _waiting_line(faults: LearnerErrors) -> int:
    """Where a task of the learner's waits, if none is busy."""
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return 0
    stacks = [task.get_stack() for task in tasks]
    return next((line for stack in stacks for f in stack if (line := faults.busy_line(f))), 0)


class _Plain(logging.StreamHandler[Any]):
    """What learners log is shown as they write it; what we log is not their business."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)
        self.addFilter(lambda record: record.name.split(".")[0] not in ("stowplan", "asyncio"))

    def format(self, record: logging.LogRecord) -> str:
        return record.getMessage()


def _show_logs() -> None:
    logging.basicConfig(level=logging.INFO, handlers=[_Plain()])


if __name__ == "__main__":
    main(sys.argv[1:])
