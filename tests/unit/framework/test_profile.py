"""Profiles: plugins made from arguments, mistakes explained."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stowplan.config.types import PluginRef
from stowplan.errors import ConfigError
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Plugin
from stowplan.framework.profile import Profile, build_profile, make_plugin
from stowplan.framework.registry import Registry


class CountArgs(msgspec.Struct, forbid_unknown_fields=True):
    limit: int = 3
    name: str = ""


class Counts(Plugin):
    name = "Counts"
    Args = CountArgs

    def __init__(self, args: CountArgs | None = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        if args is not None and args.limit < 0:
            raise ConfigError("must not be negative", where="limit")
        if args is not None and args.limit == 13:
            raise RuntimeError("unlucky")

    def filter(self, pod: Any, node: Any) -> bool:
        return True

    def score(self, pod: Any, node: Any) -> int:
        return 1


class Plain(Plugin):
    name = "Plain"

    def score(self, pod: Any, node: Any) -> int:
        return 1


def test_arguments_are_typed() -> None:
    handle = Handle()
    plugin = make_plugin(Counts, {"limit": 5}, handle)
    assert plugin.args == CountArgs(limit=5)
    assert plugin.handle is handle
    assert make_plugin(Counts, {}).args == CountArgs()
    assert make_plugin(Plain, {}).args is None


@pytest.mark.parametrize(
    ("plugin", "args", "message"),
    [
        (Counts, {"limit": "five"}, 'args.limit: Invalid value: "five": Expected `int`, got `str`'),
        (Counts, {"limitt": 5}, 'args.limitt: unknown field; did you mean "limit"?'),
        (Counts, {"limit": -1}, "limit: must not be negative"),
        (Counts, {"limit": 13}, "pluginConfig[Counts].args: RuntimeError: unlucky"),
        (Plain, {"any": 1}, "pluginConfig[Plain].args: plugin Plain takes no arguments"),
    ],
)
def test_wrong_arguments_say_where(
    plugin: type[Plugin], args: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        make_plugin(plugin, args)
    assert message in str(caught.value)
    assert caught.value.exit_code == 2


def test_one_instance_serves_all_points() -> None:
    profile = build_profile(
        "mine",
        {
            "filter": [PluginRef("Counts")],
            "score": [PluginRef("Plain", 0), PluginRef("Counts", 4)],
        },
        registry=Registry([Counts, Plain]),
        handle=Handle(),
        args={"Counts": {"limit": 9}},
        percentage_of_nodes_to_score=40,
    )
    assert (profile.name, profile.percentage_of_nodes_to_score) == ("mine", 40)
    assert [step.name for step in profile.filters] == ["Counts"]
    assert [(step.name, step.weight) for step in profile.scores] == [("Plain", 1), ("Counts", 4)]
    assert profile.filters[0].plugin is profile.scores[1].plugin is profile.at("filter")[0]
    assert profile.filters[0].plugin.args.limit == 9
    assert set(profile.plugins) == {"Counts", "Plain"}
    assert profile.at("permit") == []


def test_points_without_plugins_are_empty() -> None:
    profile = Profile("empty", {})
    assert not profile.filters
    assert not profile.scores
    assert not profile.at("bind")
