"""The checks of `--stowplan-plugin` as tests: one item a check, a line of summary at the end.

Loaded by `pytest_plugin` only when the option is given.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from stowplan.config.load import parse_tree, read_text
from stowplan.config.types import KIND
from stowplan.errors import ConfigError, StowplanError
from stowplan.testing.plugin_checks import (
    CHECKS,
    CheckFailed,
    NotApplicable,
    Subject,
    load_subject,
    run_check,
)

_PREFIX = "stowplan-plugin"


class CheckItem(pytest.Item):
    """One check of one plugin."""

    def __init__(self, *, subject: Subject, **node: Any) -> None:
        super().__init__(**node)
        self._subject = subject
        self.add_marker("stowplan_check")

    def runtest(self) -> None:
        try:
            run_check(self.name, self._subject)
        except NotApplicable as reason:
            pytest.skip(str(reason))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, CheckFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self._subject.spec} {self.name}"


class PluginSuite(pytest.Collector):
    """All checks of one plugin."""

    def __init__(self, *, spec: str, args: Mapping[str, Any], **node: Any) -> None:
        super().__init__(**node)
        self._spec = spec
        self._args = args

    def collect(self) -> Iterator[pytest.Item]:
        try:
            subject = load_subject(self._spec, self._args)
        except StowplanError as problem:
            raise self.CollectError(f"--stowplan-plugin {problem}") from None
        for name in CHECKS:
            yield CheckItem.from_parent(self, name=name, subject=subject)


class PluginSuites:
    """Adds the suites to the session, and tells at the end how they went."""

    def __init__(self, config: pytest.Config) -> None:
        here = str(config.invocation_params.dir)
        if here not in sys.path:
            # Last, so that a plugin in a plain file is found and nothing else changes.
            sys.path.append(here)
        self._specs: list[str] = list(dict.fromkeys(config.getoption("stowplan_plugin")))
        file = config.getoption("stowplan_plugin_args")
        self._args: dict[str, Any] = {}
        #: A scheduler's configuration names the plugin of all arguments.
        self._is_by_name = False
        try:
            if file:
                self._args, self._is_by_name = _read_args(Path(file))
        except ConfigError as problem:
            raise pytest.UsageError(f"--stowplan-plugin-args {problem}") from None

    def subjects(self) -> list[Subject]:
        return [load_subject(spec, self._args_of(spec)) for spec in self._specs]

    def _args_of(self, spec: str) -> Mapping[str, Any]:
        """The arguments of one plugin: all of them if it is the only one and none is named."""
        name = load_subject(spec).name
        named = self._args.get(name)
        if isinstance(named, Mapping):
            return named
        return self._args if len(self._specs) == 1 and not self._is_by_name else {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        outcome = yield
        if isinstance(collector, pytest.Session):
            report = outcome.get_result()  # type: ignore[attr-defined]  # pluggy sends its Result here
            if report.passed:
                report.result = [*report.result, *self._suites(collector)]

    def _suites(self, session: pytest.Session) -> Iterator[PluginSuite]:
        for spec in self._specs:
            try:
                args = self._args_of(spec) if self._args else {}
            except StowplanError:
                args = {}  # collecting it tells
            yield PluginSuite.from_parent(
                session, name=spec, nodeid=f"{_PREFIX}::{spec}", spec=spec, args=args
            )

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for spec in self._specs:
            told, is_bad = self._summary(spec, terminalreporter.stats)
            terminalreporter.write_line(f"stowplan: {told}", red=is_bad, green=not is_bad)

    @staticmethod
    def _summary(spec: str, stats: Mapping[str, Any]) -> tuple[str, bool]:
        ended: dict[str, list[str]] = {}
        start = f"{_PREFIX}::{spec}::"
        for outcome in ("passed", "failed", "skipped", "error"):
            for report in stats.get(outcome, ()):
                nodeid = getattr(report, "nodeid", "")
                if nodeid.startswith(start) and getattr(report, "when", "") in ("call", "setup"):
                    ended.setdefault(outcome, []).append(nodeid.removeprefix(start))
        failed = ended.get("failed", []) + ended.get("error", [])
        passed, left = len(ended.get("passed", ())), len(ended.get("skipped", ()))
        if not failed and not passed:
            return f"{spec}: no check was run", False
        rest = f", {left} do not apply" if left else ""
        if failed:
            count = f"{len(failed)} of {len(failed) + passed} checks failed"
            return f"{spec}: {count}: {', '.join(failed)}{rest}", True
        return f"{spec}: {passed} checks passed{rest}", False


def _read_args(file: Path) -> tuple[dict[str, Any], bool]:
    """Arguments of a file, and whether they are a scheduler's configuration's, by plugin name."""
    errors: list[Any] = []
    tree = parse_tree(read_text(file), str(file), errors)
    if errors:
        raise ConfigError("; ".join(str(error) for error in errors), where=str(file))
    if not isinstance(tree, dict):
        raise ConfigError("must be a mapping of arguments", where=str(file))
    if tree.get("kind") != KIND:
        return tree, False
    by_name = {
        entry.get("name", ""): entry.get("args") or {}
        for profile in tree.get("profiles") or ()
        for entry in profile.get("pluginConfig") or ()
    }
    return by_name, True
