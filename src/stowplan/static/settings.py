"""What `stowplan static` is asked to do, and the scheduler that does it.

Strict, the default: the label alone decides, as in the original. Cordoned, tainted or full nodes
get their pods, and one of several labelled nodes is chosen at random. With `respect_node_state` all
default plugins filter and score as well, but no pod is evicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from stowplan.config.load import default_config
from stowplan.config.types import PluginConfig, PluginRef, Plugins, PluginSet, Profile
from stowplan.plugins.registry import in_tree_registry
from stowplan.plugins.static_placement.labels import DEFAULT_PREFIX, PinLabels
from stowplan.plugins.static_placement.plugin import StaticPlacement
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.engine import Engine
from stowplan.static.binder import StaticBinder

DEFAULT_NAME: Final = "rfcustom"
DEFAULT_DELAY_S: Final = 10.0
DEFAULT_PORT: Final = 8000
#: The original listened on all addresses.
DEFAULT_ADDRESS: Final = "127.0.0.1"
#: A delay of nothing would mean to ask the API server without pause.
_SHORTEST_ROUND_S: Final = 0.1

_STRICT: Final = ("SchedulingGates", "PrioritySort", StaticPlacement.name, StaticBinder.name)
#: DefaultPreemption would need the right to delete pods; and pods are pinned to stay.
_NOT_RESPECTED: Final = ("DefaultPreemption", "DefaultBinder")


@dataclass(frozen=True, slots=True)
class StaticSettings:
    """The command line with its defaults; `where_...` says where a value came from, for errors."""

    name: str = DEFAULT_NAME
    prefix: str = DEFAULT_PREFIX
    kubeconfig: str | None = None
    #: None: where Kubernetes mounts it.
    incluster_base_path: str | None = None
    daemon: bool = False
    delay_s: float = DEFAULT_DELAY_S
    #: None: no metrics.
    prometheus_port: int | None = DEFAULT_PORT
    bind_address: str = DEFAULT_ADDRESS
    where_port: str = "--prometheus-port"
    respect_node_state: bool = False

    @property
    def round_s(self) -> float:
        """How long to wait between two rounds."""
        return max(self.delay_s, _SHORTEST_ROUND_S)

    @property
    def labels(self) -> PinLabels:
        return PinLabels(self.name, self.prefix)


def make_engine(settings: StaticSettings) -> tuple[Engine, StaticBinder]:
    """An engine with the one profile that serves the pods of this name, and its binder."""
    enabled: tuple[str, ...] = _STRICT
    disabled: tuple[str, ...] = ("*",)
    if settings.respect_node_state:
        enabled, disabled = (StaticPlacement.name, StaticBinder.name), _NOT_RESPECTED
    profile = Profile(
        scheduler_name=settings.name,
        plugins=Plugins(
            multi_point=PluginSet(
                enabled=tuple(PluginRef(name) for name in enabled),
                disabled=tuple(PluginRef(name) for name in disabled),
            )
        ),
        plugin_config=(PluginConfig(name=StaticPlacement.name, args={"prefix": settings.prefix}),),
        tie_break="random",
    )
    registry = in_tree_registry()
    registry.register(StaticBinder)
    engine = build_engine(replace(default_config(), profiles=(profile,)), registry=registry)
    (binder,) = (each for each in engine.plugins() if isinstance(each, StaticBinder))
    return engine, binder
