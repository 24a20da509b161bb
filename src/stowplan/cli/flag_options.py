"""kube-scheduler's flags as click options, and their sections in `--help`.

`stowplan run` uses the decorator: click parses its command line, and the values are read by
`pflag`. `kube-scheduler` uses the options for its help only.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from stowplan.cli.flags_table import FLAGS, SECTIONS
from stowplan.cli.pflag import ALONE, Flag, parse_value
from stowplan.config.feature_gates import known_gates

R = TypeVar("R")

#: Flags that `stowplan run` has by decorators that it shares with other commands, or by click.
SHARED: Final = frozenset({"kubeconfig", "v", "logging-format", "help", "version"})
_REPEATED: Final = frozenset(
    {
        "strings",
        "int32Slice",
        "namedCertKey",
        "stringToString",
        "colonSeparatedMultimapStringString",
        "pattern=N,...",
    }
)
_METAVARS: Final = {
    "bool": "BOOL",
    "colonSeparatedMultimapStringString": "NAME=BOOL,...",
    "namedCertKey": "CERT,KEY[:NAME,...]",
    "stringToString": "KEY=VALUE",
    "pattern=N,...": "PATTERN=N,...",
}
_FILES: Final = re.compile(r"(.*-)?(config|kubeconfig|file|config-to|manifest)")
_CHOICES: Final = {
    "leader-elect-resource-lock": ("leases",),
    "logging-format": ("text", "json"),
    "tls-min-version": ("VersionTLS12", "VersionTLS13"),
}
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


class FlagOption(click.Option):
    """The option of a flag of kube-scheduler's; its value is the text, or a tuple of texts."""

    def __init__(self, flag: Flag, section: str, *, default: str | None = None) -> None:
        shown = (flag.default if default is None else default).strip('"')
        text = flag.help + (f" [default: {shown}]" if shown not in ("", "[]") else "")
        if flag.without_effect:
            text += f" Accepted without effect: {flag.without_effect}."
        names = [f"-{flag.short}"] if flag.short else []
        super().__init__(
            [*names, f"--{flag.name}", parameter(flag)],
            metavar=_metavar(flag),
            help=text,
            is_flag=False,
            flag_value="true" if flag.kind in ALONE else None,
            multiple=flag.kind in _REPEATED,
        )
        self.flag = flag
        self.section = section

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        choices = _choices(self.flag)
        if not choices:
            return super().shell_complete(ctx, incomplete)
        before, comma, start = incomplete.rpartition(",")
        return [CompletionItem(before + comma + each) for each in choices if each.startswith(start)]


class FlagSections(click.Command):
    """A command whose help lists the flags of kube-scheduler by section, after its own options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            title = f"{param.section} flags" if isinstance(param, FlagOption) else "Options"
            record = param.get_help_record(ctx)
            if record is not None:
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _metavar(flag: Flag) -> str:
    if flag.kind == "string" and _FILES.fullmatch(flag.name):
        return "FILE"
    return "DIR" if flag.name == "cert-dir" else _METAVARS.get(flag.kind, flag.kind.upper())


def _choices(flag: Flag) -> Sequence[str]:
    """Return the values that a shell offers."""
    if flag.kind == "bool":
        return ("true", "false")
    if flag.name == "feature-gates":
        gates = known_gates()
        return [f"{name}={str(not gates[name].default).lower()}" for name in sorted(gates)]
    return _CHOICES.get(flag.name, ())


def parameter(flag: Flag) -> str:
    return f"kube_{flag.name.replace('-', '_')}"


def all_options() -> list[FlagOption]:
    return [FlagOption(flag, section) for section, flags in SECTIONS.items() for flag in flags]


def kube_scheduler_options(**defaults: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Add kube-scheduler's flags to a command, which gets those that were given as `flags`.

    `defaults` are the texts of defaults that are not upstream's, for the help.
    """

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(command)
        def with_flags(**kwargs: Any) -> R:
            flags: dict[str, Any] = {}
            for flag in FLAGS.values():
                given = kwargs.pop(parameter(flag), None)
                if given is None or given == ():
                    continue
                texts = [given] if isinstance(given, str) else list(given)
                if flag.kind == "duration":
                    # As everywhere in Stowplan's commands, a number without a unit is seconds.
                    texts = [f"{text}s" if _NUMBER.fullmatch(text) else text for text in texts]
                flags[flag.name] = parse_value(flag, texts)
            return command(**kwargs, flags=flags)

        params = vars(with_flags).setdefault("__click_params__", [])
        for section, flags in reversed(tuple(SECTIONS.items())):
            for flag in reversed(flags):
                if flag.name not in SHARED:
                    default = defaults.get(parameter(flag).removeprefix("kube_"))
                    params.append(FlagOption(flag, section, default=default))
        return with_flags

    return decorate
