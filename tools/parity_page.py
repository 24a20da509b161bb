"""Writes docs/parity.md: how every plugin and field compares with kube-scheduler.

`make docs` runs it. Names, points, weights, arguments and defaults are read from the code, reasons
from its `DIVERGES:` comments, and what upstream's plugins read from `parity_facts.py`. A test fails
when the page in the repository is not what this would write.
"""

from __future__ import annotations

import ast
import json
import re
import types
import typing
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from stowplan.config.decode import encode_hook
from stowplan.config.defaults import (
    DEFAULT_MULTI_POINT,
    DEFAULT_SCHEDULER_NAME,
    default_config,
)
from stowplan.config.plugin_args import PLUGIN_ARGS
from stowplan.config.types import (
    POINTS,
    Extender,
    KubeSchedulerConfiguration,
    PluginConfig,
    Plugins,
    Profile,
)
from stowplan.framework.plugin import points_of
from stowplan.plugins.registry import IN_TREE
from stowplan.plugins.static_placement import StaticPlacement
from tools.parity_facts import (
    ARGUMENTS,
    CONFIGURATION,
    DIFFERS,
    NOT_YET,
    PLUGINS,
    SAME,
    SCHEDULER,
    Fact,
    Status,
)

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "src" / "stowplan"
PAGE: Final = ROOT / "docs" / "parity.md"
MARK: Final = "DIVERGES:"

INTRODUCTION: Final = """\
# Parity with kube-scheduler 1.36

<!-- Written by `make docs` from the code, its DIVERGES comments and tools/parity_facts.py.
     Edit those, not this page. -->

What Stowplan does as kube-scheduler 1.36 does it, where it differs on purpose, and what does not
exist yet. "Same" means the same answer for the same cluster: code, reasons, scores, order. It is
checked against kube-scheduler's own code in `tests/parity` and against the real program in
`tests/e2e`.
"""


class Divergence(NamedTuple):
    """A difference as the code tells it."""

    file: str
    place: str
    reason: str


def page() -> str:
    """The whole page."""
    divergences = list(find_divergences(SOURCE))
    _check_facts({divergence.file for divergence in divergences})
    parts = [
        INTRODUCTION,
        _overview(),
        "## Plugins\n\nThe default profile, in its order.\n",
        *(_plugin(ref.name) for ref in DEFAULT_MULTI_POINT),
        _other_plugins(),
        "## Scheduler\n",
        _table(("part", "status", ""), [_row(fact, exists=True) for fact in SCHEDULER]),
        "## Configuration\n\n`kubescheduler.config.k8s.io/v1`; "
        "[configuration.md](configuration.md) explains the fields.\n",
        _table(("field", "default", "status", ""), _configuration_rows()),
        "## Differences on purpose\n\nEvery `DIVERGES:` comment of the code.\n",
        _table(
            ("where", "what and why"),
            [(f"`{each.file}` {each.place}", each.reason) for each in divergences],
        ),
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


# Plugins


def _overview() -> str:
    rows = []
    for ref in DEFAULT_MULTI_POINT:
        counts = Counter(status for _, status, _ in _plugin_rows(ref.name))
        link = f"[{ref.name}](#{ref.name.lower()})"
        shown = (str(counts[status] or "") for status in (SAME, DIFFERS, NOT_YET))
        rows.append((link, str(ref.weight or ""), *shown))
    return _table(("plugin", "weight", SAME, DIFFERS, NOT_YET), rows)


def _plugin(name: str) -> str:
    points = "does not exist yet"
    if _exists(name):
        has = points_of(next(plugin for plugin in IN_TREE if plugin.name == name))
        points = ", ".join(point for point in POINTS if point in has)
    return f"### {name}\n\n{points}\n\n{_table(('reads', 'status', ''), _plugin_rows(name))}"


def _plugin_rows(name: str) -> list[tuple[str, str, str]]:
    exists = _exists(name)
    rows = [_row(fact, exists=exists) for fact in PLUGINS[name]]
    for path, default in argument_defaults(name):
        fact = ARGUMENTS.get(f"{name}.{path}", Fact(""))
        note = "; ".join(filter(None, [f"default {default}", fact.note]))
        rows.append((f"argument `{path}`", _status(fact, exists=exists), note))
    return rows


def argument_defaults(plugin: str) -> list[tuple[str, str]]:
    """The arguments of a plugin, by path, with what they are by default."""
    kind = PLUGIN_ARGS.get(plugin)
    return list(_leaves(kind, kind().defaulted())) if kind is not None else []


def _other_plugins() -> str:
    defaults = {ref.name for ref in DEFAULT_MULTI_POINT}
    ours = [
        plugin.name
        for plugin in IN_TREE
        if plugin.name not in defaults and plugin is not StaticPlacement
    ]
    return (
        "### Not in the default profile\n\n"
        f"Ours, for examples and baselines: {', '.join(ours)}.\n"
        "Ours, for pods that are pinned to nodes: [StaticPlacement](static-placement.md).\n"
        "Upstream's that belong to alpha features do not exist: GangScheduling,\n"
        "TopologyPlacementGenerator, PodGroupPodsCount.\n"
    )


def _exists(name: str) -> bool:
    return any(plugin.name == name for plugin in IN_TREE)


def _status(fact: Fact, *, exists: bool) -> Status:
    return fact.status if exists else NOT_YET


def _row(fact: Fact, *, exists: bool) -> tuple[str, str, str]:
    return fact.reads, _status(fact, exists=exists), fact.note if exists else ""


# Configuration


def _configuration_rows() -> list[tuple[str, str, str, str]]:
    return [(f"`{path}`", shown, *_configured(path)) for path, shown in configuration_defaults()]


def configuration_defaults() -> list[tuple[str, str]]:
    """The fields of the configuration, by path, with what they are by default."""
    rows: list[tuple[str, str]] = []
    for path, default in _leaves(KubeSchedulerConfiguration, default_config()):
        if path == "profiles":
            rows.append((path, "one profile"))
            only = Profile(scheduler_name=DEFAULT_SCHEDULER_NAME)
            rows += [(f"{path}[].{inner}", shown) for inner, shown in _leaves(Profile, only)]
        elif path == "extenders":
            rows.append((path, "none"))
            rows += [(f"{path}[].{inner}", shown) for inner, shown in _leaves(Extender, Extender())]
        else:
            rows.append((path, default))
    return rows


def _configured(path: str) -> tuple[str, str]:
    """A field's status and note; what is inside a field is as the field itself."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        for key in (".".join(parts[:length]), ".".join(parts[:length]).removesuffix("[]")):
            if key in CONFIGURATION:
                return CONFIGURATION[key].status, CONFIGURATION[key].note
    return SAME, ""


def _leaves(
    struct: type[msgspec.Struct], value: Any, prefix: str = ""
) -> Iterator[tuple[str, str]]:
    """The fields of a section of the configuration, by path, with what they are by default."""
    hints = typing.get_type_hints(struct)
    for field in msgspec.structs.fields(struct):
        path = f"{prefix}{field.encode_name}"
        inner = _section(hints[field.name])
        held = getattr(value, field.name)
        if inner is not None and inner is not Plugins and held is not None:
            yield from _leaves(inner, held, f"{path}.")
        elif inner is Plugins:
            yield from (
                (f"{path}.{each.encode_name}", "") for each in msgspec.structs.fields(Plugins)
            )
        elif hints[field.name] == tuple[PluginConfig, ...]:
            yield from ((f"{path}[].{name}", "") for name in ("name", "args"))
        else:
            yield path, _shown(held)


def _section(hint: Any) -> type[msgspec.Struct] | None:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for option in options:
        is_ours = isinstance(option, type) and issubclass(option, msgspec.Struct)
        if is_ours and option.__module__.startswith("stowplan.config"):
            struct: type[msgspec.Struct] = option
            return struct
    return None


def _shown(value: Any) -> str:
    if value is None or value in ("", (), b""):
        return "none"
    plain = msgspec.json.decode(msgspec.json.encode(value, enc_hook=encode_hook))
    return f"`{plain if isinstance(plain, str) else json.dumps(plain)}`"


# Divergences


def find_divergences(source: Path) -> Iterator[Divergence]:
    """Every marked comment below a folder, by file and place."""
    for file in sorted(source.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if MARK in text:
            tree, lines = ast.parse(text), text.splitlines()
            for number, line in enumerate(lines, start=1):
                if MARK in line:
                    place = _enclosing(tree, number)
                    yield Divergence(
                        file.relative_to(source).as_posix(),
                        f"`{place}`" if place else "",
                        _paragraph(lines, number - 1),
                    )


def _enclosing(tree: ast.Module, line: int) -> str:
    """The class and function in which a line stands, such as `Queue.flush`."""
    names: list[str] = []
    nodes: list[ast.stmt] = tree.body
    while True:
        inside = [
            node
            for node in nodes
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.lineno <= line <= (node.end_lineno or 0)
        ]
        if not inside:
            return ".".join(names)
        names.append(inside[0].name)
        nodes = inside[0].body


def _paragraph(lines: list[str], first: int) -> str:
    """What follows the mark, up to the end of the comment or of the docstring's paragraph."""
    is_comment = lines[first].lstrip().startswith("#")
    words = [lines[first].partition(MARK)[2]]
    if not words[0].rstrip().endswith('"""'):
        for line in lines[first + 1 :]:
            stripped = line.strip()
            if not stripped or stripped.startswith('"""') or MARK in line:
                break
            if is_comment and not stripped.startswith("#"):
                break
            words.append(stripped.removeprefix("#") if is_comment else stripped)
            if stripped.endswith('"""'):
                break
    reason = " ".join(" ".join(words).replace('"""', "").split())
    # A name such as client-go or tieBreak keeps its small letter.
    is_word = re.match(r"[a-z]+('s)?[ ,.]", reason) is not None
    return reason[:1].upper() + reason[1:] if is_word else reason


def _check_facts(told: set[str]) -> None:
    """Facts that speak of what is not there would be worse than none."""
    defaults = [ref.name for ref in DEFAULT_MULTI_POINT]
    assert sorted(PLUGINS) == sorted(defaults), "facts for each default plugin, and no other"
    everywhere: Iterable[Fact] = (
        *(fact for facts in PLUGINS.values() for fact in facts),
        *CONFIGURATION.values(),
        *SCHEDULER,
    )
    for fact in everywhere:
        if fact.status == DIFFERS:
            assert fact.told_in in told, f"no {MARK} comment in {fact.told_in!r} ({fact.note})"
    fields = {path for path, _ in configuration_defaults()}
    for path in CONFIGURATION:
        assert path in fields, f"the configuration has no field {path}"
    arguments = {f"{name}.{path}" for name in defaults for path, _ in argument_defaults(name)}
    for path in ARGUMENTS:
        assert path in arguments, f"there is no argument {path}"


def _table(headers: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [headers, tuple("---" for _ in headers), *rows]
    return "".join(
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |\n" for line in lines
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"Wrote {PAGE.relative_to(ROOT)}")
