"""Reading a configuration file: YAML or JSON text to a complete, validated configuration.

All errors of a file are reported together, each with the file and the path of the field. The order
is parse, decode (plugin arguments too), default, validate. A value of the wrong type ends it after
decode; unknown fields do not, so their errors come with those of validation. A caller that knows
the plugins passes further checks, which run with validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from stowplan.config.decode import decode, encode_hook, without_nulls
from stowplan.config.defaults import default_config, fill_absent, replace_zeros
from stowplan.config.fields import FieldError, invalid, raise_errors, required
from stowplan.config.plugin_args import read_args
from stowplan.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from stowplan.config.validation import validate
from stowplan.errors import ConfigError
from stowplan.loader.files import read_file
from stowplan.loader.json_text import load_json, repeated_names
from stowplan.loader.malformed import Malformed, text_of
from stowplan.loader.yaml_text import How, Repeated, load_yaml

__all__ = [
    "as_text",
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
    return as_text(read_file(path), str(path))


def as_text(data: bytes, where: str) -> str:
    try:
        return text_of(data)
    except Malformed as problem:
        raise ConfigError(str(problem), where=where) from None


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
    tree: dict[str, Any] = load_json(msgspec.json.encode(config, enc_hook=encode_hook))
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
    """Plain data of YAML or JSON text; keys that are there twice are appended to `errors`.

    DIVERGES: a file with several documents is refused. Upstream reads the first and drops the
    others without a word.
    """
    repeated: list[Repeated] = []
    try:
        if text.lstrip().startswith("{"):
            # JSON may hold tabs, which YAML refuses; flow-style YAML falls through.
            try:
                tree = load_json(text)
                errors += [FieldError(path, "duplicate key") for path in repeated_names(text)]
                return tree
            except Malformed:
                pass  # reported by the YAML parser, which finds the same limits
        tree = load_yaml(text, How(repeated=repeated))
    except Malformed as problem:
        raise ConfigError(str(problem), where=where) from None
    for path, _, first, again, _ in repeated:
        errors.append(FieldError(path, f"duplicate key, in lines {first} and {again}"))
    return tree
