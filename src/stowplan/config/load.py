"""Reading a configuration file: YAML or JSON text to a complete, validated configuration.

All errors of a file are reported together, each with the file and the path of the field. The order
is parse, decode (plugin arguments too), default, validate. A value of the wrong type ends it after
decode; unknown fields do not, so their errors come with those of validation. A caller that knows
the plugins passes further checks, which run with validation.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import yaml

from stowplan.config.decode import decode, encode_hook, without_nulls
from stowplan.config.defaults import default_config, fill_absent, replace_zeros
from stowplan.config.fields import FieldError, invalid, raise_errors, required
from stowplan.config.plugin_args import read_args
from stowplan.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from stowplan.config.validation import validate
from stowplan.errors import ConfigError

__all__ = [
    "default_config",
    "load_config",
    "parse_config",
    "parse_object",
    "parse_tree",
    "read_text",
    "to_object",
]

#: Finds more mistakes in a configuration that could be decoded.
Check: TypeAlias = Callable[[KubeSchedulerConfiguration], Iterable[FieldError]]


def load_config(path: str | Path, *, check: Check | None = None) -> KubeSchedulerConfiguration:
    """The configuration in a file; ConfigError names the file and every wrong field."""
    return parse_config(read_text(path), where=str(path), check=check)


def read_text(path: str | Path) -> str:
    """What is in a file; ConfigError says why it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 text: {error.reason}", where=str(path)) from None


def parse_config(
    text: str, *, where: str = "", check: Check | None = None
) -> KubeSchedulerConfiguration:
    """The configuration in YAML or JSON text; `where` is named in errors."""
    repeated: list[FieldError] = []
    raw = parse_tree(text, where, repeated)
    return _build(raw, where, repeated, check)


def parse_object(
    raw: object, *, where: str = "", check: Check | None = None
) -> KubeSchedulerConfiguration:
    """The configuration in an already parsed tree."""
    return _build(raw, where, [], check)


def _build(
    raw: object, where: str, errors: list[FieldError], check: Check | None
) -> KubeSchedulerConfiguration:
    if not isinstance(raw, dict):
        raise ConfigError(f"expected a {KIND}, found no mapping", where=where)
    tree: dict[str, Any] = without_nulls(raw, KubeSchedulerConfiguration)
    config: KubeSchedulerConfiguration | None = None
    if _is_ours(tree, errors):
        config = decode(fill_absent(tree), KubeSchedulerConfiguration, errors)
        _decode_arguments(tree, errors)
    if config is not None:
        config = replace_zeros(config)
        further = [*validate(config), *(check(config) if check is not None else ())]
        # A misspelt field leaves the one that was meant empty, which would be reported again.
        meant = {error.meant for error in errors}
        errors += [error for error in further if str(error).partition(": ")[0] not in meant]
    # Several steps may find the same.
    raise_errors({str(error): error for error in errors}.values(), where=where)
    assert config is not None  # decode gives a reason for None
    return config


def _decode_arguments(tree: dict[str, Any], errors: list[FieldError]) -> None:
    """Report plugin arguments that cannot be decoded; `decode` reports wrong types around them."""
    for place, profile in _mappings(tree.get("profiles"), "profiles"):
        for at, entry in _mappings(profile.get("pluginConfig"), f"{place}.pluginConfig"):
            name, args = entry.get("name"), entry.get("args", {})
            if isinstance(name, str) and isinstance(args, dict):
                read_args(name, args, errors, path=f"{at}.args")


def _mappings(value: object, path: str) -> list[tuple[str, dict[str, Any]]]:
    """The mappings in what should be a list of them, each with its path."""
    items = value if isinstance(value, list) else []
    return [(f"{path}[{i}]", item) for i, item in enumerate(items) if isinstance(item, dict)]


def to_object(config: KubeSchedulerConfiguration) -> dict[str, Any]:
    """The tree that `parse_object` reads, with what was written and the plain defaults."""
    tree: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(config, enc_hook=encode_hook))
    if not tree["extenders"]:
        del tree["extenders"]
    return tree


def _is_ours(raw: dict[str, Any], errors: list[FieldError]) -> bool:
    """Check apiVersion and kind; a file of another kind would only cause unknown-field errors."""
    ours = True
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        value = raw.get(field)
        if value != expected:
            ours = False
            detail = f'expected "{expected}"'
            errors.append(
                required(field, detail) if value is None else invalid(field, value, detail)
            )
    return ours


def parse_tree(text: str, where: str, errors: list[FieldError]) -> object:
    """Plain data of YAML or JSON text; keys that are there twice are appended to `errors`."""
    if text.lstrip().startswith("{"):
        # JSON may hold tabs, which YAML refuses; flow-style YAML falls through.
        try:
            tree = json.loads(text, object_pairs_hook=_Members)
        except json.JSONDecodeError:
            return _parse_yaml(text, where, errors)
        _find_repeated_members(tree, "", errors)
        return tree
    return _parse_yaml(text, where, errors)


class _Members(dict[str, Any]):
    """A JSON object that remembers which names it had twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(name for name, _ in pairs)
        self.repeated = [name for name, count in counts.items() if count > 1]


def _find_repeated_members(tree: object, path: str, errors: list[FieldError]) -> None:
    if isinstance(tree, _Members):
        prefix = f"{path}." if path else ""
        errors += [FieldError(prefix + name, "duplicate key") for name in tree.repeated]
        for name, value in tree.items():
            _find_repeated_members(value, prefix + name, errors)
    elif isinstance(tree, list):
        for index, item in enumerate(tree):
            _find_repeated_members(item, f"{path}[{index}]", errors)


def _parse_yaml(text: str, where: str, errors: list[FieldError]) -> object:
    try:
        loader = yaml.SafeLoader(text)
        # DIVERGES: a file with several documents is refused. Upstream reads the first and drops the
        # others without a word.
        node = loader.get_single_node()
        if node is None:
            return None
        _find_duplicates(node, "", errors)
        return _whole_numbers(loader.construct_document(node))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(f"{place}{error.problem or error.context}", where=where) from None
    except yaml.YAMLError as error:
        raise ConfigError(" ".join(str(error).split()), where=where) from None


def _whole_numbers(tree: Any) -> Any:
    """On its way through JSON, where upstream reads it, 3.0 becomes 3."""
    if isinstance(tree, dict):
        return {key: _whole_numbers(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_whole_numbers(value) for value in tree]
    return int(tree) if isinstance(tree, float) and tree.is_integer() else tree


def _find_duplicates(
    node: yaml.Node, path: str, errors: list[FieldError], above: tuple[yaml.Node, ...] = ()
) -> None:
    """YAML lets the last of two equal keys win in silence; here they are mistakes."""
    if node in above:
        raise yaml.YAMLError(f"{path}: an alias contains itself")
    above = (*above, node)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _find_duplicates(item, f"{path}[{index}]", errors, above)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            name = str(key.value)
            inner = f"{path}.{name}" if path else name
            if name in lines:
                first, again = lines[name] + 1, key.start_mark.line + 1
                errors.append(FieldError(inner, f"duplicate key, in lines {first} and {again}"))
            lines[name] = key.start_mark.line
            _find_duplicates(value, inner, errors, above)
