"""Arguments of kube-scheduler's plugins: defaults, and what a plugin gets to see of them.

What is accepted and refused is compared with kube-scheduler itself in tests/parity.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from stowplan.config.defaults import DEFAULT_MULTI_POINT
from stowplan.config.durations import Duration
from stowplan.config.fields import FieldError, invalid
from stowplan.config.plugin_args import (
    CPU_AND_MEMORY,
    PLUGIN_ARGS,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    ScoringStrategy,
    read_args,
    written_args,
)
from stowplan.errors import ConfigError
from stowplan.framework.plugin import Plugin
from stowplan.framework.profile import make_plugin
from stowplan.plugins.registry import IN_TREE


def test_they_belong_to_default_plugins() -> None:
    assert set(PLUGIN_ARGS) <= {ref.name for ref in DEFAULT_MULTI_POINT}
    assert all(kind.__name__ == f"{plugin}Args" for plugin, kind in PLUGIN_ARGS.items())


def test_plugins_use_them() -> None:
    defaults = {ref.name for ref in DEFAULT_MULTI_POINT}
    for plugin in IN_TREE:
        if plugin.name in defaults:
            assert plugin.Args is PLUGIN_ARGS.get(plugin.name), plugin.name


@pytest.mark.parametrize("plugin", PLUGIN_ARGS)
def test_defaults_are_valid_and_can_be_read_again(plugin: str) -> None:
    errors: list[FieldError] = []
    args = read_args(plugin, {}, errors, path="args")
    assert args is not None
    assert list(args.problems("args")) == []
    assert args.defaulted() == args
    assert read_args(plugin, written_args(plugin, args), errors, path="args") == args
    assert errors == []


def test_the_defaults_themselves() -> None:
    shown = {
        plugin: written_args(plugin, kind().defaulted()) for plugin, kind in PLUGIN_ARGS.items()
    }
    for args in shown.values():
        assert args.pop("apiVersion") == "kubescheduler.config.k8s.io/v1"
        del args["kind"]
    both = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
    assert shown == {
        "DefaultPreemption": {
            "minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100,
        },
        "DynamicResources": {"filterTimeout": "10s", "bindingTimeout": "10m0s"},
        "InterPodAffinity": {
            "hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False,
        },
        "NodeAffinity": {},
        "NodeResourcesBalancedAllocation": {"resources": both},
        "NodeResourcesFit": {"scoringStrategy": {"type": "LeastAllocated", "resources": both}},
        "PodTopologySpread": {"defaultingType": "System"},
        "VolumeBinding": {"bindTimeoutSeconds": 600},
    }  # fmt: skip


def test_zeros_that_mean_unset() -> None:
    assert NodeResourcesBalancedAllocationArgs().defaulted().resources == CPU_AND_MEMORY
    strategy = ScoringStrategy(type="MostAllocated", resources=(ResourceSpec(name="a"),))
    args = NodeResourcesFitArgs(scoring_strategy=strategy).defaulted()
    assert args.scoring_strategy.resources == (ResourceSpec(name="a", weight=1),)
    assert PodTopologySpreadArgs(defaulting_type="").defaulted().defaulting_type == "System"


def test_arguments_of_others_are_not_read_here() -> None:
    errors: list[FieldError] = []
    assert read_args("Mine", {"kind": "Whatever"}, errors, path="args") is None
    assert errors == []


class PoliteArgs(PluginArgs, frozen=True):
    wait: Duration = Duration(0)

    def defaulted(self) -> PoliteArgs:
        return msgspec.structs.replace(self, wait=self.wait or Duration(3))

    def problems(self, path: str) -> Iterator[FieldError]:
        if self.wait < 0:
            yield invalid(f"{path}.wait", self.wait, "time does not run backwards")


class Polite(Plugin):
    name = "Polite"
    Args = PoliteArgs

    def post_bind(self, cycle: object, pod: object, node: str) -> None:
        """Has to have some point."""


def test_other_plugins_may_have_such_arguments() -> None:
    assert make_plugin(Polite, {}).args == PoliteArgs(wait=Duration(3))
    with pytest.raises(ConfigError, match=r'args\.wait: Invalid value: "-1s": time does not run'):
        make_plugin(Polite, {"wait": "-1s"})
