"""Runs tasks in processes on this machine.

Invariants: a killed worker costs only a retry of its task, and workers end with the process that
started them, however it ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from threading import Thread
from typing import Final

from stowplan.sim.sweep.playing import Played, play
from stowplan.sim.sweep.tasks import Task

#: How often a task is retried alone after its worker died.
_TRIES: Final = 2


@dataclass(frozen=True, slots=True)
class Lost:
    """A task whose worker died on every try."""

    task: Task


class Pool:
    """A pool of processes; `keeps_run` and `keeps_decisions` are passed to `play`."""

    def __init__(self, workers: int, *, keeps_run: bool, keeps_decisions: bool) -> None:
        self._workers = workers
        self._keeps = (keeps_run, keeps_decisions)

    def play(self, tasks: Iterable[Task]) -> Iterator[Played | Lost]:
        """Yield results as they become ready."""
        waiting = deque(tasks)
        while waiting:
            # Any of them may have killed the worker, so each is retried alone.
            for task in (yield from self._round(waiting, self._workers)):
                for _ in range(_TRIES):
                    if not (yield from self._round(deque([task]), 1)):
                        break
                else:
                    yield Lost(task)

    def _round(self, waiting: deque[Task], workers: int) -> Generator[Played, None, list[Task]]:
        """Run until all tasks are done or a worker dies; return the tasks that ran at that time."""
        playing: dict[Future[Played], Task] = {}
        with _executor(min(workers, len(waiting))) as executor:
            while waiting or playing:
                # One task per worker, so only running tasks are lost with a worker.
                while waiting and len(playing) < workers:
                    try:
                        with uninterrupted():
                            future = executor.submit(play, waiting[0], *self._keeps)
                    except BrokenProcessPool as problem:
                        future = Future()
                        future.set_exception(problem)
                    playing[future] = waiting.popleft()
                done, _ = wait(playing, return_when=FIRST_COMPLETED)
                if any(isinstance(each.exception(), BrokenProcessPool) for each in done):
                    done, _ = wait(playing)
                for future in [each for each in playing if each in done]:
                    if not isinstance(future.exception(), BrokenProcessPool):
                        del playing[future]
                        yield future.result()
                if any(future.done() for future in playing):
                    return list(playing.values())
        return []


@contextmanager
def _executor(workers: int) -> Iterator[ProcessPoolExecutor]:
    """A pool whose processes are killed if the block ends with an error or Ctrl-C."""
    # The fork server has no threads and has imported everything.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([play.__module__])
    _start_resource_tracker()
    others = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_worker)
    try:
        yield executor
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.kill()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _start_resource_tracker() -> None:
    """Start the process that removes semaphores, without its warning if this process is killed."""
    quiet = "ignore:resource_tracker"
    sys.warnoptions.append(quiet)  # options of the processes that multiprocessing starts
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.remove(quiet)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer Ctrl-C while workers start: one that is interrupted then prints a traceback."""
    _start_resource_tracker()  # whose start would end the deferral
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker() -> None:
    # Ctrl-C is sent to the whole process group; the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End with the parent: a worker holds both ends of its queue, so it would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
