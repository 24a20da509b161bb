"""The pytest plugin: fixtures for tests of plugins, and `--stowplan-plugin`, which checks one.

Installed with Stowplan (entry point `pytest11`), so it is loaded in every run of pytest in such an
environment: it imports nothing of Stowplan until a fixture or the option is used, and a project's
own fixtures of the same names win.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from stowplan.sim.scenarios import Cluster, Outcome
    from stowplan.testing.cluster import ClusterClock, MemoryCluster
    from stowplan.testing.faults import Faults
    from stowplan.testing.verdict import Verdict

_MARK = (
    "stowplan(plugins=(), args=None, config=None, defaults=True, seed=0):"
    " what the scheduler of the `cluster` fixture runs"
)
_CHECK_MARK = "stowplan_check: a check of --stowplan-plugin; choose or leave them out with -m"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stowplan", "Stowplan: tests of scheduler plugins")
    group.addoption(
        "--stowplan-plugin",
        action="append",
        default=[],
        metavar="MODULE:CLASS",
        help="check a plugin for purity, determinism, columns and cost (also FILE.py:CLASS;"
        " may be repeated)",
    )
    group.addoption(
        "--stowplan-plugin-args",
        metavar="FILE",
        default=None,
        help="its arguments: YAML or JSON, or a KubeSchedulerConfiguration with a pluginConfig;"
        " for several plugins by name",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARK)
    if config.getoption("stowplan_plugin"):
        config.addinivalue_line("markers", _CHECK_MARK)
        from stowplan.testing.plugin_suite import PluginSuites

        config.pluginmanager.register(PluginSuites(config), "stowplan-plugin-suites")
    elif config.getoption("stowplan_plugin_args"):
        raise pytest.UsageError("--stowplan-plugin-args is of no use without --stowplan-plugin")


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[MemoryCluster]:
    """An empty cluster in memory with a scheduler, which runs the plugins of the mark
    `@pytest.mark.stowplan(plugins=[MyPlugin], args={...})`, or those of --stowplan-plugin.
    """
    from stowplan.testing.cluster import MemoryCluster

    plugins, options = _wanted(request)
    made = MemoryCluster(*plugins, **options)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def decide(cluster: MemoryCluster) -> Callable[..., Verdict]:
    """`decide("web", cpu="2")`: where such a pod would go, and why not elsewhere."""
    return cluster.decide


@pytest.fixture
def virtual_clock(cluster: MemoryCluster) -> ClusterClock:
    """The cluster's time; `advance(seconds)` moves it, and all that is due happens."""
    return cluster.clock


@pytest.fixture
def faults(cluster: MemoryCluster) -> Faults:
    """What goes wrong on purpose: requests, plugins, nodes."""
    return cluster.faults


@pytest.fixture
def play_scenario(request: pytest.FixtureRequest) -> Callable[..., Outcome]:
    """`play_scenario(scenario)`: an `async def scenario(cluster)`, in virtual time, with the same
    plugins as `cluster`; its failure is the test's.
    """
    from stowplan.testing.playing import play

    plugins, options = _wanted(request)

    def played(scenario: Callable[[Cluster], Any], *, on: str = "virtual") -> Outcome:
        return play(scenario, plugins, on=on, **options)

    return played


def _wanted(request: pytest.FixtureRequest) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The plugins and options of a test's mark; without one, what the command line names."""
    mark = request.node.get_closest_marker("stowplan")
    if mark is not None:
        # By keyword: pytest takes a mark that is called with a lone class for its decorator.
        options = dict(mark.kwargs)
        return (*mark.args, *options.pop("plugins", ())), options
    if not request.config.getoption("stowplan_plugin"):
        return (), {}
    from stowplan.testing.plugin_suite import PluginSuites

    suites = request.config.pluginmanager.get_plugin("stowplan-plugin-suites")
    assert isinstance(suites, PluginSuites)
    subjects = suites.subjects()
    args = {subject.name: subject.args for subject in subjects if subject.args}
    return tuple(subject.plugin for subject in subjects), {"args": args}
