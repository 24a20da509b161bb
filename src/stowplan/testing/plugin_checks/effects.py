"""No side effects: only the handle's clock and random source, no I/O, processes or threads.

Python's audit events show I/O, its profiling events show calls of clocks and of `random`'s global
functions, and the states of the global generators show the rest. Not detected: environment
variables, and effects inside extension modules.
"""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from types import FrameType
from typing import Any

import numpy as np

from stowplan.framework.plugin import Plugin
from stowplan.testing.plugin_checks.asking import Asker, in_words
from stowplan.testing.plugin_checks.subject import CheckFailed, Subject

_CLOCKS = {
    "time": "time.time",
    "time_ns": "time.time_ns",
    "monotonic": "time.monotonic",
    "monotonic_ns": "time.monotonic_ns",
    "perf_counter": "time.perf_counter",
    "perf_counter_ns": "time.perf_counter_ns",
    "localtime": "time.localtime",
    "gmtime": "time.gmtime",
    "process_time": "time.process_time",
}
_MOMENTS = frozenset({"now", "utcnow", "today"})
#: Prefixes of audit events, and what they mean.
_IO = {
    "open": "opened a file",
    "os.listdir": "listed a folder",
    "os.scandir": "listed a folder",
    "os.remove": "removed a file",
    "os.rename": "renamed a file",
    "os.mkdir": "made a folder",
    "os.system": "started a process",
    "os.exec": "started a process",
    "os.fork": "started a process",
    "os.posix_spawn": "started a process",
    "subprocess.Popen": "started a process",
    "socket.": "used a socket",
    "sqlite3.": "used a database",
    "urllib.Request": "sent a request",
}
_TIME = "read the clock"
_CHANCE = "used the global random generator"
_SLEEP = "slept"
_THREAD = "started a thread"
_MENDS = {
    _TIME: "use self.handle.clock, which tests and simulations can move; and do not let cached"
    " columns depend on it.",
    _CHANCE: "draw from self.handle.rng, which is seeded, so that a run can be repeated.",
    _THREAD: "answer in the thread that asks; nothing here may run beside the scheduler.",
    _SLEEP: "answer at once: all other pods wait meanwhile. To hold a pod back is permit's affair.",
}
_IO_MEND = (
    "do no I/O here: all other pods wait meanwhile. Read files when the plugin is made; objects of"
    " the cluster are in self.handle.catalog (name their kinds in looks_up); whatever writes to the"
    " API server belongs in pre_bind, bind or post_bind."
)

#: Whose doings are not the plugin's.
_EXCUSED = ("linecache.py", "inspect.py", "logging/__init__.py")

#: The current watcher. Audit hooks cannot be removed, so one hook serves all.
_watching: list[_Watch] = []


class _Enough(BaseException):
    """What was seen will do: the plugin need not go on sleeping."""


class _Watch:
    """Notes what happens within, with the line of the plugin that it comes from."""

    def __init__(self, plugin: type[Plugin]) -> None:
        self.seen: list[tuple[str, str, str]] = []
        self._files = {
            getattr(sys.modules.get(kind.__module__), "__file__", "") or ""
            for kind in plugin.__mro__
            if kind is not Plugin and kind is not object
        }

    def note(self, what: str, details: str, frame: FrameType | None) -> None:
        if _is_excused(frame):
            return
        self.seen.append((what, details, self._line(frame)))
        if what == _SLEEP:
            raise _Enough

    def _line(self, frame: FrameType | None) -> str:
        """The innermost line of the plugin's own files."""
        while frame is not None:
            if frame.f_code.co_filename in self._files:
                return f" ({frame.f_code.co_filename}:{frame.f_lineno})"
            frame = frame.f_back
        return ""

    def on_audit(self, event: str, args: tuple[Any, ...]) -> None:
        meaning = next((words for prefix, words in _IO.items() if event.startswith(prefix)), "")
        if not meaning or event == "socket.gethostname":
            return
        what = str(args[0]) if args and isinstance(args[0], str | bytes) else event
        self.note(meaning, what, sys._getframe(2))

    def on_profile(self, frame: FrameType, event: str, function: Any) -> None:
        if event != "c_call":
            return
        name = getattr(function, "__name__", "")
        if getattr(function, "__module__", None) == "time":
            if name in _CLOCKS:
                self.note(_TIME, _CLOCKS[name], frame)
            elif name == "sleep":
                self.note(_SLEEP, "time.sleep", frame)
        elif name in _MOMENTS:
            owner = getattr(function, "__self__", None)
            if isinstance(owner, type) and owner.__module__ == "datetime":
                self.note(_TIME, f"{owner.__name__}.{name}", frame)
        elif name in ("random", "getrandbits", "seed"):
            if getattr(function, "__self__", None) is random._inst:
                self.note(_CHANCE, "the module random", frame)
        elif name in ("start_new_thread", "start_joinable_thread"):
            self.note(_THREAD, "a thread", frame)
        elif name == "urandom":
            self.note(_CHANCE, "os.urandom", frame)

    @contextmanager
    def on(self) -> Iterator[None]:
        _hook()
        generators = random.getstate(), _numpy_state()
        before = sys.getprofile()
        # Callbacks of the collector may read clocks (hypothesis has one), and are not the plugin's.
        collects = gc.isenabled()
        gc.disable()
        _watching.append(self)
        sys.setprofile(self.on_profile)
        try:
            yield
        finally:
            sys.setprofile(before)
            _watching.remove(self)
            if collects:
                gc.enable()
        if not self.seen:
            if random.getstate() != generators[0]:
                self.note(_CHANCE, "the module random", None)
            elif _numpy_state() != generators[1]:
                self.note(_CHANCE, "numpy.random", None)


@cache
def _hook() -> None:
    """Once a process."""
    sys.addaudithook(_on_audit)


def _on_audit(event: str, args: tuple[Any, ...]) -> None:
    for watch in _watching:
        watch.on_audit(event, args)


def _is_excused(frame: FrameType | None) -> bool:
    """Modules may be imported when they are needed, and a log may be written, with its time."""
    while frame is not None:
        name = frame.f_code.co_filename
        if "importlib" in name or name.endswith(_EXCUSED):
            return True
        frame = frame.f_back
    return False


def _numpy_state() -> tuple[bytes, Any]:
    """The state of numpy's global generator."""
    state: Any = np.random.get_state()  # noqa: NPY002 - it is the global one that is meant
    return state[1].tobytes(), state[2]


def check_effects(subject: Subject) -> None:
    """Judging reads no clock, uses no global chance and does no I/O."""
    for case in subject.cases[:8]:
        cluster, plugin = subject.on(case)
        asker = Asker(plugin, cluster)
        for pod in case.askers:
            watch = _Watch(subject.plugin)
            with suppress(_Enough), watch.on():
                asker.ask(pod)
            for what, details, line in watch.seen:
                if what == _SLEEP:
                    subject.stuck_in = "no-effects"
                raise CheckFailed(
                    f"{subject.name} {what} while it judged {in_words(pod)}: {details}{line}.",
                    _MENDS.get(what, _IO_MEND),
                )
