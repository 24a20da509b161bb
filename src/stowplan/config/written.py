"""A complete configuration as kube-scheduler writes it with --write-config-to.

Default plugins and the arguments of every plugin that runs are spelled out, so that the tree says
all that applies, and can be read again. Printed by `stowplan config` and `stowplan run`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec

from stowplan.config.decode import encode_hook
from stowplan.config.merge import merge_defaults
from stowplan.config.plugin_args import PLUGIN_ARGS, read_args, written_args
from stowplan.config.types import (
    Extender,
    KubeSchedulerConfiguration,
    PluginConfig,
    PluginRef,
    Plugins,
    PluginSet,
    Profile,
)
from stowplan.loader.json_text import load_json

_SETS: Final = tuple(field.encode_name for field in msgspec.structs.fields(Plugins))


def written_config(config: KubeSchedulerConfiguration, known: Collection[str]) -> dict[str, Any]:
    """The whole tree. A default plugin that is not `known` is left out: it could not be read
    again.
    """
    tree = _plain(config)
    qps = config.client_connection.qps
    tree["clientConnection"]["qps"] = int(qps) if qps.is_integer() else qps
    tree["profiles"] = [_profile(profile, known) for profile in config.profiles]
    tree["extenders"] = [_extender(extender) for extender in config.extenders]
    for optional in ("extenders", "delayCacheUntilActive"):
        if not tree[optional]:
            del tree[optional]
    return tree


def _profile(profile: Profile, known: Collection[str]) -> dict[str, Any]:
    merged = merge_defaults(profile.plugins)
    sets = {name: _written_set(merged.at(name), known) for name in _SETS}
    running = {ref["name"] for each in sets.values() for ref in each.get("enabled", ())}
    given = {entry.name: entry for entry in profile.plugin_config}
    arguments = [
        {"name": name, "args": args}
        for name in sorted(running)
        if (args := _arguments(name, given.get(name))) is not None
    ]
    written: dict[str, Any] = {**_plain(profile), "plugins": sets, "pluginConfig": arguments}
    if not arguments:
        del written["pluginConfig"]
    return written


def _arguments(name: str, given: PluginConfig | None) -> dict[str, Any] | None:
    """What applies to a plugin; None for one that takes no arguments and is given none."""
    raw = given.args if given is not None else {}
    args = read_args(name, raw, [], path="")
    if args is not None:
        return written_args(name, args)
    assert name not in PLUGIN_ARGS, "only valid configurations are written"
    return raw or None


def _written_set(plugins: PluginSet, known: Collection[str]) -> dict[str, Any]:
    enabled = [_written_ref(ref) for ref in plugins.enabled if ref.name in known]
    disabled = [_written_ref(ref) for ref in plugins.disabled]
    return {key: refs for key, refs in (("enabled", enabled), ("disabled", disabled)) if refs}


def _written_ref(ref: PluginRef) -> dict[str, Any]:
    return {"name": ref.name, "weight": ref.weight}


def _extender(extender: Extender) -> dict[str, Any]:
    return {**_plain(extender), "httpTimeout": str(extender.http_timeout)}


def _plain(struct: msgspec.Struct) -> dict[str, Any]:
    tree: dict[str, Any] = load_json(msgspec.json.encode(struct, enc_hook=encode_hook))
    return tree
