"""`stowplan learn`: sixteen lessons, from a pending pod to a scheduler of your own.

The lessons are data (`stowplan.learn`); this module picks the lesson and prints.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from stowplan.cli.groups import CommandGroup
from stowplan.cli.invocation import typed
from stowplan.cli.options import file_option
from stowplan.clock import rfc3339
from stowplan.errors import ConfigError
from stowplan.learn.course import Course, Lesson
from stowplan.learn.faults import LearnerErrors, shown
from stowplan.learn.progress import LessonProgress, Passed
from stowplan.learn.texts import Texts, chosen_language
from stowplan.learn.workbook import Workbook, diff
from stowplan.present.markdown import PAGE_WIDTH, render

F = TypeVar("F", bound=Callable[..., Any])

EXIT_NOT_YET: Final = 1
_TARGETS: Final = ("virtual", "embedded", "real")


class Desk:
    """What every command needs: the lessons, the learner's files, the translated texts."""

    def __init__(self, lang: str | None, lessons_dir: str | None) -> None:
        self.course = Course()
        self.language = chosen_language(lang, self.course.languages(), os.environ)
        self._texts = Texts(self.language)
        self.here = Path.cwd()
        self.book = Workbook.find(Path(lessons_dir) if lessons_dir else None, self.here)
        self.progress = LessonProgress(self.book.directory)

    def say(self, key: str, /, **fields: object) -> str:
        return typed(self._texts(key, **fields))

    def lesson(self, asked: str | None) -> Lesson:
        """Return the named lesson, else that of the current folder, else the next one to do."""
        keys = {each.key: each for each in self.course.lessons}
        if asked is None:
            inside = self.book.lesson_of(self.here, keys)
            return inside or self.next() or self.course.lessons[-1]
        words = {*Path(asked).parts} or {*asked}  # the path "." has no parts
        if words & {".", *keys, *(each.file for each in keys.values())}:
            inside = self.book.lesson_of((self.here / asked).resolve(), keys)
            if inside is not None:
                return inside
        return self.course.find(asked)

    def next(self) -> Lesson | None:
        lessons = self.course.lessons
        return next((each for each in lessons if not self.progress.passed(each.key)), None)

    def errors(self, file: Path) -> LearnerErrors:
        return LearnerErrors(file, self._texts)

    def file(self, lesson: Lesson) -> str:
        return shown(self.book.file(lesson))

    def tell_next(self) -> None:
        lesson = self.next()
        if lesson is None:
            tell(self.say("all_passed", count=len(self.course.lessons)))
        elif self.book.has(lesson):
            tell(self.say("next_check", number=lesson.number, file=self.file(lesson)))
        else:
            echo(self.say("next_start", number=lesson.number))


def desk_options(command: F) -> F:
    command = click.option(
        "--lessons-dir",
        metavar="DIR",
        help="Folder with your files and your progress. Default: stowplan-lessons, here or in a "
        "parent folder.",
    )(command)
    return click.option(
        "--lang",
        metavar="LANGUAGE",
        help="Language of the lessons. Default: that of $LANG, if there is a translation.",
    )(command)


on_option = click.option(
    "--on",
    type=click.Choice(_TARGETS),
    default="virtual",
    show_default=True,
    help="virtual: simulated time, no network. embedded: our API server over HTTP, real time. "
    "real: etcd and kube-apiserver, which `make controlplane` builds.",
)


def echo(text: str, *, err: bool = False) -> None:
    """Print with colours, unless the output is no terminal or NO_COLOR is set."""
    click.echo(text, err=err, color=False if os.environ.get("NO_COLOR") else None)


def tell(text: str, *, indent: str = "", hang: str = "") -> None:
    """Print a wrapped sentence without breaking a path or a command."""
    lines = textwrap.wrap(
        text,
        _width(),
        initial_indent=indent,
        subsequent_indent=hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
    echo("\n".join(lines))


def _width() -> int:
    return min(PAGE_WIDTH, shutil.get_terminal_size((PAGE_WIDTH + 2, 24)).columns - 2)


class LearnGroup(CommandGroup):
    """A group that says which command a learner may have meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if ctx.resilient_parsing or word.startswith("-") or self.get_command(ctx, word):
            return super().resolve_command(ctx, args)
        try:
            number = Course().find(word).number
        except ConfigError:
            close = get_close_matches(word, self.list_commands(ctx), n=1)
            meant = f"stowplan learn {close[0]}" if close else "stowplan learn --help"
            if word in ("list", "next", "status"):
                meant = "stowplan learn"
        else:
            meant = f"stowplan learn start {number}"
        raise click.UsageError(f"No such command '{word}'. Did you mean `{typed(meant)}`?", ctx)


@click.group(cls=LearnGroup, invoke_without_command=True)
@desk_options
@click.pass_context
def learn(context: click.Context, lang: str | None, lessons_dir: str | None) -> None:
    """Learn scheduling in sixteen short lessons.

    Each lesson has a page to read, a file to complete, and a check. The check runs your file on a
    simulated cluster and explains what is wrong. Without a command, this lists the lessons, those
    you have passed, and the next one.

    Name a lesson by its number (3), its name (bind), its step in a track (framework/3) or the path
    of your file. Your files are in ./stowplan-lessons; progress.json there records your progress.
    """
    if context.invoked_subcommand is None:
        _show_list(Desk(lang, lessons_dir))


def _show_list(desk: Desk) -> None:
    track = ""
    for lesson in desk.course.lessons:
        if lesson.track != track:
            track = lesson.track
            echo(
                ("" if lesson is desk.course.lessons[0] else "\n")
                + _bold(desk.say(f"track_{track}"))
            )
        passed = desk.progress.passed(lesson.key)
        status = "passed" if passed else "begun" if desk.book.has(lesson) else "new"
        words = desk.say(f"status_{status}").ljust(8)
        if passed:
            words = click.style(words, fg="green")
        echo(f"  {lesson.number:2}  {words}  {lesson.title(desk.language)}".rstrip())
    count = sum(1 for each in desk.course.lessons if desk.progress.passed(each.key))
    total, directory = len(desk.course.lessons), shown(desk.book.directory)
    echo("\n" + desk.say("progress", passed=count, count=total, directory=directory))
    desk.tell_next()


def _bold(text: str) -> str:
    return click.style(text, bold=True)


@learn.command()
@click.argument("lesson", required=False)
@desk_options
def start(lesson: str | None, lang: str | None, lessons_dir: str | None) -> None:
    """Copy a lesson's exercise and show its page.

    Copies to stowplan-lessons/NN_name. Never overwrites a file.
    """
    desk = Desk(lang, lessons_dir)
    chosen = desk.lesson(lesson)
    started = desk.book.start(chosen)
    echo(_page(desk, chosen))
    words = "started" if started.is_new else "already_started"
    echo(_bold(desk.say(words, file=desk.file(chosen), number=chosen.number)))


@learn.command()
@click.argument("lesson", required=False)
@desk_options
def read(lesson: str | None, lang: str | None, lessons_dir: str | None) -> None:
    """Show the page of a lesson."""
    desk = Desk(lang, lessons_dir)
    echo(_page(desk, desk.lesson(lesson)).rstrip("\n"))


def _page(desk: Desk, lesson: Lesson) -> str:
    title, _, rest = lesson.page(desk.language).partition("\n")
    title = f"# {lesson.number}. {title.lstrip('# ')}"
    return render(typed(f"{title}\n{rest}"), _width())


@learn.command()
@click.argument("lesson", required=False)
@on_option
@desk_options
def check(lesson: str | None, on: str, lang: str | None, lessons_dir: str | None) -> int:
    """Run your file and explain what is wrong, if anything.

    Your file runs in a separate process with a time limit, and its output is shown. The exit code
    is 1 if the check fails.
    """
    from stowplan.learn.child import check_in_child  # a slow import that pages do not need

    desk = Desk(lang, lessons_dir)
    chosen = desk.lesson(lesson)
    number = chosen.number
    if not desk.book.has(chosen):
        file = desk.file(chosen)
        raise ConfigError(desk.say("not_started", file=file, number=number))
    verdict = check_in_child(
        chosen,
        desk.book.file(chosen),
        on=on,
        language=desk.language,
        show=lambda line: echo(click.style("  | ", dim=True) + line),
    )
    if not verdict.is_passed:
        echo(click.style(desk.say("check_failed"), fg="red", bold=True))
        _list_of(verdict.mistakes)
        tell(desk.say("after_failure", number=number))
        return EXIT_NOT_YET
    if verdict.notes:
        echo(_bold(desk.say("check_notes")))
        _list_of(verdict.notes)
    is_first = desk.progress.passed(chosen.key) is None
    words = "check_passed" if is_first or on == "virtual" else "check_passed_on"
    desk.progress.note(chosen.key, Passed(rfc3339(time.time()), on))
    echo(click.style(desk.say(words, number=number, on=on), fg="green", bold=True))
    desk.tell_next()
    return 0


def _list_of(texts: Iterable[str]) -> None:
    """Print each text wrapped, but leave indented lines (quoted code) unchanged."""
    for text in texts:
        first, *quoted = typed(text).splitlines()
        tell(first, indent="  - ", hang="    ")
        for line in quoted:
            echo(f"    {click.style(line, fg='cyan')}")


@learn.command()
@click.argument("lesson", metavar="[LESSON|FILE.py]", required=False)
@file_option(
    "--scenario",
    "Scenario in Python or YAML. Default: that of the mini-kube-scheduler, in which a pod "
    "waits for a node.",
)
@on_option
@desk_options
def play(
    lesson: str | None, scenario: Path | None, on: str, lang: str | None, lessons_dir: str | None
) -> int:
    """Play a scenario with your own scheduler.

    Your scheduler is your file of a lesson from 10 to 16, or FILE.py with a class MiniScheduler. It
    serves the pods of default-scheduler. The exit code is 1 if the scenario fails.
    """
    from stowplan.learn.playing import DEFAULT_SCENARIO, play_with
    from stowplan.sim.scenarios.live import Live
    from stowplan.sim.scenarios.report import summary

    desk = Desk(lang, lessons_dir)
    if lesson is not None and lesson.endswith(".py"):
        file = Path(lesson)
    else:
        chosen = desk.lesson(lesson)
        file = desk.book.file(chosen)
        if not desk.book.has(chosen):
            raise ConfigError(desk.say("not_started", file=shown(file), number=chosen.number))
    _show_log()
    live = Live(sys.stdout, sys.stderr)
    errors = desk.errors(file)
    try:
        outcome = play_with(file, scenario or DEFAULT_SCENARIO, on, on_entry=live, errors=errors)
    finally:
        live.end()
    echo("")
    _list_of(errors.told)
    for line in summary(outcome):
        echo(click.style(line, fg="red") if line.startswith("FAIL") else line)
    return 0 if outcome.is_ok and not errors.told else EXIT_NOT_YET


def _show_log() -> None:
    """Print what the learner's scheduler logs, between the lines of the timeline."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("           %(name)s: %(message)s"))
    handler.addFilter(lambda record: record.name.split(".")[0] not in ("stowplan", "asyncio"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


@learn.command()
@click.argument("lesson", required=False)
@desk_options
def hint(lesson: str | None, lang: str | None, lessons_dir: str | None) -> None:
    """Show a hint for a lesson."""
    desk = Desk(lang, lessons_dir)
    echo(render(typed(desk.lesson(lesson).hint(desk.language)), _width()).rstrip("\n"))


@learn.command()
@click.argument("lesson", required=False)
@desk_options
def solution(lesson: str | None, lang: str | None, lessons_dir: str | None) -> None:
    """Show the difference between your file and a solution."""
    desk = Desk(lang, lessons_dir)
    chosen = desk.lesson(lesson)
    solved = {chosen.file: chosen.solution.read_text(encoding="utf-8")}
    if desk.book.has(chosen):
        mine, name = desk.book.text(chosen), "yours"
    else:
        mine, name = chosen.exercise.read_text(encoding="utf-8"), "exercise"
    lines = diff({chosen.file: mine}, solved, name, "solution")
    _show_diff(lines, otherwise=desk.say("is_solution", file=desk.file(chosen)))


@learn.command("diff")
@click.argument("old")
@click.argument("new")
@desk_options
def show_step(old: str, new: str, lang: str | None, lessons_dir: str | None) -> None:
    """Show what the solution of lesson NEW adds to that of lesson OLD.

    For example `stowplan learn diff 3 4`, or by track: `diff framework/3 framework/4`.
    """
    desk = Desk(lang, lessons_dir)
    before, after = desk.lesson(old), desk.lesson(new)
    lines = diff(before.solved(), after.solved(), before.key, after.key)
    _show_diff(lines, otherwise=desk.say("no_difference", old=old, new=new))


_DIFF_COLORS: Final = {"+": "green", "-": "red", "@": "cyan"}


def _show_diff(lines: list[str], *, otherwise: str) -> None:
    for line in lines:
        if line.startswith(("+++", "---")):
            echo(_bold(line))
        else:
            echo(click.style(line, fg=_DIFF_COLORS.get(line[:1])))
    if not lines:
        echo(otherwise)


@learn.command()
@click.argument("lesson")
@desk_options
def reset(lesson: str, lang: str | None, lessons_dir: str | None) -> None:
    """Restore a lesson's exercise, and keep your file under another name."""
    desk = Desk(lang, lessons_dir)
    chosen = desk.lesson(lesson)
    kept = desk.book.reset(chosen)
    desk.progress.forget(chosen.key)
    if kept is None:
        echo(desk.say("was_reset_new", file=desk.file(chosen)))
    else:
        tell(desk.say("was_reset", file=desk.file(chosen), kept=shown(kept)))
