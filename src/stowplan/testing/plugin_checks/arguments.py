"""Arguments: what is accepted when the plugin is made must not break it afterwards."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from stowplan.api.objects import Pod
from stowplan.errors import ConfigError
from stowplan.testing.plugin_checks.asking import Asker
from stowplan.testing.plugin_checks.cases import Case
from stowplan.testing.plugin_checks.subject import CaseCluster, CheckFailed, NotApplicable, Subject

#: Values that people do write, and that mean nothing good.
_ODD: dict[type, tuple[Any, ...]] = {
    int: (0, -1, 2**62),
    float: (0.0, -1.0, 1e300),
    str: ("",),
}


def check_arguments(subject: Subject) -> None:
    """Odd values are refused when the plugin is made, or work."""
    plugin = subject.plugin
    if plugin.Args is None:
        try:
            subject.make(CaseCluster())
        except ConfigError as problem:
            raise _refused(subject, problem) from problem
        raise NotApplicable("it takes none")
    try:
        made = subject.make(CaseCluster())
    except ConfigError as problem:
        raise _refused(subject, problem) from problem
    if made.args is None:
        raise CheckFailed(
            f"{subject.name} forgets its arguments: self.args is None.",
            "pass them on: super().__init__(args, handle).",
        )
    for field, value in _odd_values(plugin.Args):
        _try(subject, field, value)


def _refused(subject: Subject, problem: ConfigError) -> CheckFailed:
    given = f"the arguments {subject.args}" if subject.args else "no arguments"
    return CheckFailed(
        f"{subject.name} cannot be made with {given}: {problem}.",
        "give every field of Args a default, or give valid ones with --stowplan-plugin-args FILE."
        if not subject.args
        else "correct the file of --stowplan-plugin-args, or what the plugin refuses.",
    )


def _odd_values(args: type[msgspec.Struct]) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(args)
    names = zip(args.__struct_fields__, args.__struct_encode_fields__, strict=True)
    for name, wire in names:
        for kind in _kinds(hints[name]):
            for value in _ODD.get(kind, ()):
                yield wire, value


def _kinds(hint: Any) -> tuple[Any, ...]:
    """The plain types that a field may have."""
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(kind for part in get_args(hint) for kind in _kinds(part))
    return (hint,)


def _try(subject: Subject, field: str, value: Any) -> None:
    args = {**subject.args, field: value}
    try:
        subject.make(CaseCluster(), args)
    except ConfigError:
        return
    for case in subject.cases[:4]:
        cluster = CaseCluster()
        plugin = subject.make(cluster, args)
        case.fill(cluster.cache)
        asker = Asker(plugin, cluster)
        for pod in case.askers:
            answers = asker.ask(pod)
            if answers.problem and not _usually_breaks(subject, case, pod):
                raise CheckFailed(
                    f"{subject.name} takes {field}: {value!r} and breaks later: {answers.problem}.",
                    "reject it in __init__ with a ValueError whose text explains the mistake to the"
                    " user; it is reported with the path of the field.",
                )


def _usually_breaks(subject: Subject, case: Case, pod: Pod) -> bool:
    """Then check_answers tells."""
    cluster, plugin = subject.on(case)
    return bool(Asker(plugin, cluster).ask(pod).problem)
