"""The examples of scenarios: all as they expect, with the same placements on every target.

On the real control plane they share one, which is emptied after each: starting it takes longer than
most of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.api.resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
)
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.cli.main import main
from stowplan.lab.controlplane import ControlPlane, components
from stowplan.sim.scenarios import Options, Outcome, run, targets
from stowplan.sim.scenarios.files import read_playables
from stowplan.sim.scenarios.targets import Target
from stowplan.workloads.kinds import resource_named
from tests.controlplane_fixtures import require_binaries

EXAMPLES = Path(__file__).parents[2] / "examples" / "scenarios"
MINI = EXAMPLES / "mini_kube_scheduler.py"
SCENARIOS = [*sorted(EXAMPLES.glob("*.yaml")), MINI]
NAMES = [file.name for file in SCENARIOS]
#: What the scenarios are about must be among them.
SUBJECTS = ("permit", "preemption", "volume_wait_for_first_consumer", "volume_bound", "drain")
#: Seconds count on the real control plane, and these say what others there say, too.
NOT_ON_REAL = (
    *("cordon", "room_is_made", "host_ports", "extended_resources", "image_locality", "share_gpus"),
    *("node_labelled", "most_allocated", "taints_prefer", "mini_kube_scheduler"),
)
ON_REAL = [file for file in SCENARIOS if file.stem not in NOT_ON_REAL]
QUICK = KubeletOptions(start_delay_s=0.02, stop_delay_s=0.02)


def play(file: Path, on: str, kubelet: KubeletOptions | None = None) -> Outcome:
    (playable,) = read_playables(file)
    return playable.play(on, Options(kubelet=kubelet or KubeletOptions()))


def told(outcome: Outcome) -> str:
    failed = [f"{each.text}: {each.found}" for each in outcome.expectations if not each.is_met]
    return "\n".join([outcome.problem, *failed])


@cache
def on_virtual(file: Path) -> Outcome:
    return play(file, "virtual")


def test_there_are_enough_of_them() -> None:
    assert len(ON_REAL) >= 20
    assert {*SUBJECTS} <= {file.stem for file in ON_REAL}
    assert {*NOT_ON_REAL} <= {file.stem for file in SCENARIOS}


@pytest.mark.parametrize("file", SCENARIOS, ids=NAMES)
def test_on_virtual(file: Path) -> None:
    outcome = on_virtual(file)
    assert outcome.is_ok, told(outcome)
    assert outcome.placements
    assert outcome.expectations or file == MINI


@pytest.mark.parametrize("file", SCENARIOS, ids=NAMES)
def test_no_lot_is_drawn(file: Path) -> None:
    """Else another target could draw another one."""
    (playable,) = read_playables(file)
    assert playable.play("virtual", Options(seed=99)).placements == on_virtual(file).placements


@pytest.mark.parametrize("file", SCENARIOS, ids=NAMES)
def test_on_embedded(file: Path) -> None:
    outcome = play(file, "embedded", QUICK)
    assert outcome.is_ok, told(outcome)
    assert outcome.placements == on_virtual(file).placements


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """As `--on real` starts one."""
    require_binaries("etcd", "kube-apiserver", "kube-controller-manager", "kwok")
    with ControlPlane(
        disabled_admission_plugins=components.ADMISSION_NEEDING_CONTROLLERS
    ) as running:
        running.start_controller_manager(
            targets._CLAIMS_AGAIN, controllers=targets._VOLUME_CONTROLLERS
        )
        running.start_kwok()
        yield running


@asynccontextmanager
async def target_on(plane: ControlPlane) -> AsyncIterator[Target]:
    config = load_cluster_config(kubeconfig=str(plane.kubeconfig))
    async with targets._real_time("real", config) as target:
        yield target
        await empty(target.client)


async def empty(client: ApiClient) -> None:
    """But for what every cluster has."""
    classes = resource_named("PriorityClass")
    assert classes is not None
    kinds = (PODS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, NODES, classes)
    for resource in kinds:
        objects = await client.list_all(resource)
        for each in objects.items:
            metadata = each["metadata"] if isinstance(each, dict) else None
            name = metadata["name"] if metadata else each.metadata.name
            namespace = "" if metadata else each.metadata.namespace
            if not name.startswith("system-"):
                await client.delete(resource, name, namespace=namespace, grace_period_s=0)


@pytest.mark.e2e
@pytest.mark.parametrize("file", ON_REAL, ids=[file.name for file in ON_REAL])
def test_on_real(file: Path, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "real_target", lambda **_: target_on(plane))
    outcome = play(file, "real")
    assert outcome.is_ok, told(outcome)
    assert outcome.placements == on_virtual(file).placements


@pytest.mark.e2e
def test_on_an_existing_cluster_everything_is_kept_apart_and_removed(plane: ControlPlane) -> None:
    def there() -> list[str]:
        paths = ("/api/v1/nodes", "/api/v1/pods", "/apis/scheduling.k8s.io/v1/priorityclasses")
        return [each["metadata"]["name"] for path in paths for each in plane.api.get(path)["items"]]

    before = there()
    file = EXAMPLES / "preemption.yaml"
    outcome = play(file, str(plane.kubeconfig))
    assert outcome.is_ok, told(outcome)
    ((key, node),) = outcome.placements.items()
    assert (key.partition("/")[2], node) == ("web", "small")
    assert key.startswith("stowplan-scenario-")
    assert there() == before


@pytest.mark.e2e
def test_the_original_scenario_on_a_control_plane_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    require_binaries("etcd", "kube-apiserver", "kube-controller-manager", "kwok")
    with pytest.raises(SystemExit) as ended:
        main(["simulate", str(EXAMPLES / "mini_kube_scheduler.yaml"), "--on", "real"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    said = [line.partition("scenario: ")[2] for line in out.splitlines() if "scenario: " in line]
    assert said == ["all nodes created", "pod1 created", "node10 created"]
    assert "ok    pod1 is on node10" in out
