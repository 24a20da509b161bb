"""Rescheduling on an embedded API server: which pods go, and which stay."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.resources import PODS
from stowplan.errors import ConfigError
from stowplan.extender.algorithms import Fit, NOPAlgorithm, QueriedData, Score
from stowplan.extender.background import Runs
from stowplan.extender.cluster_data import ClusterScoreDataProvider
from stowplan.extender.kubeapi import Kubeapi
from stowplan.extender.metrics import Metric
from stowplan.extender.prometheus import Prometheus
from stowplan.extender.rescheduling import (
    AlgorithmFailed,
    NotNowError,
    Rescheduler,
    has_reschedule,
)
from tests.unit.api.api_kit import until
from tests.unit.extender.cluster_kit import following, running_cluster
from tests.unit.extender.fake_prometheus import FakePrometheus, by, serving, started
from tests.unit.extender.rescheduling_kit import (
    Failing,
    Names,
    SlowNames,
    measured,
    scene,
)


async def test_what_the_algorithm_names_is_deleted() -> None:
    async with scene(Names("web-2", "web-0", "web-2")) as on:
        done = await on.rescheduler.run_once()
        assert done.deleted == ["web-2", "web-0"]
        assert await on.going() == ["web-0", "web-2"]
        assert measured(on.rescheduler) == {"reschedules.done": 1, "rescheduled_pods.deleted": 2}


async def test_a_dry_run_only_tells() -> None:
    async with scene(Names("web-0", "nobody"), limit=1) as on:
        done = await on.rescheduler.run_once(dry_run=True)
        assert done.deleted == ["web-0"]
        assert list(done.skipped) == ["nobody"]
        assert await on.going() == []
        assert measured(on.rescheduler) == {"reschedules.done": 1}


async def test_no_more_go_than_the_limit_says() -> None:
    async with scene(Names("web-0", "gone", "web-1", "web-2", "web-3"), pods=4, limit=2) as on:
        done = await on.rescheduler.run_once()
        assert (done.deleted, done.left) == (["web-0", "web-1"], 2)
        await until(lambda: on.kubeapi.view.pods_named("web-1")[0].is_terminating)
        done = await on.rescheduler.run_once(limit=1)
        assert (done.deleted, done.left) == (["web-2"], 1)
        done = await on.rescheduler.run_once(limit=100)
        assert len(done.deleted) <= 2, "a request can lower the limit, not raise it"


async def test_some_pods_stay() -> None:
    names = Names("bare", "done", "ending", "nobody", "waiting", "web-0")
    async with scene(names, limit=1) as on:
        on.cluster.pod("waiting")
        on.cluster.pod("bare", node="n1", owner=None)
        on.cluster.pod("done", node="n1")
        on.cluster.pod("ending", node="n1")
        async with ApiClient(ClusterConfig(on.cluster.server.url)) as client:
            status = {"status": {"phase": "Failed"}}
            await client.patch(PODS, "done", status, namespace="default", subresource="status")
            await client.delete(PODS, "ending", namespace="default", grace_period_s=30)
        view = on.kubeapi.view
        await until(lambda: any(pod.is_finished for pod in view.pods_named("done")))
        await until(lambda: any(pod.is_terminating for pod in view.pods_named("ending")))
        await until(lambda: bool(view.pods_named("waiting")))
        done = await on.rescheduler.run_once()
        assert done.deleted == ["web-0"]
        assert done.skipped == {
            "bare": "it has no controller that would replace it",
            "done": "it is already being deleted",
            "ending": "it is already being deleted",
            "nobody": "there is no such pod in the monitored namespaces",
            "waiting": "it has no node yet",
        }
        lenient = Rescheduler(Names("bare"), on.kubeapi, also_bare_pods=True)
        assert (await lenient.run_once()).deleted == ["bare"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("web-0", "the answer is a str, not a list of pod names"),
        (None, "the answer is None, not a list of pod names"),
        (["web-0", 7], "the answer has a int, which is not a pod name"),
    ],
)
async def test_an_answer_that_is_no_list_of_names_deletes_nothing(
    answer: Any, problem: str
) -> None:
    names = Names()
    names.names = answer
    async with scene(names) as on:
        with pytest.raises(AlgorithmFailed, match=f"^Names.reschedule: BadAnswer: {problem}"):
            await on.rescheduler.run_once()
        assert await on.going() == []


class NamesByData(Fit):
    def reschedule_with_metrics(
        self, data_provider_queried: QueriedData
    ) -> tuple[list[str], list[Metric]]:
        return ["web-0"], []


def test_which_algorithms_name_pods() -> None:
    assert has_reschedule(Names())
    assert not has_reschedule(NOPAlgorithm())
    for kind, expected in ((Score, True), (NamesByData, True), (Fit, False)):
        assert has_reschedule(kind.__new__(kind)) is expected


async def test_a_name_in_several_namespaces_needs_its_namespace() -> None:
    async with scene(Names("web-0", "shop/web-0"), namespaces=["default", "shop"]) as on:
        done = await on.rescheduler.run_once()
        assert done.deleted == ["shop/web-0"]
        assert done.skipped == {"web-0": "there are pods of that name in several namespaces"}


async def test_a_pod_that_has_a_new_one_in_its_place_is_spared() -> None:
    async with scene(Names("web-0", "web-1")) as on:
        on.cluster.fault("/pods/web-0", method="DELETE", status=409)
        on.cluster.fault("/pods/web-1", method="DELETE", status=404)
        done = await on.rescheduler.run_once()
        assert list(done.failed) == ["web-0"]
        assert done.skipped == {"web-1": "it is gone"}
        assert done.deleted == []
        assert measured(on.rescheduler)["rescheduled_pods.failed"] == 1


async def test_nothing_goes_while_the_cluster_is_not_known() -> None:
    algorithm = Names("web-0")
    rescheduler = Rescheduler(algorithm, Kubeapi("http://127.0.0.1", 1))
    with pytest.raises(NotNowError, match="not known yet"):
        await rescheduler.run_once()
    with pytest.raises(NotNowError):
        await Rescheduler(algorithm, None).run_once()
    assert algorithm.asked == 0


async def test_one_round_at_a_time() -> None:
    algorithm = SlowNames("web-0")
    async with scene(algorithm) as on:
        first = asyncio.create_task(on.rescheduler.run_once())
        await asyncio.sleep(0)
        with pytest.raises(NotNowError, match="in progress"):
            await on.rescheduler.run_once()
        algorithm.may_go_on.set()
        assert (await first).deleted == ["web-0"]


async def test_the_interval_works() -> None:
    algorithm = Names("web-0")
    async with scene(algorithm, interval=0.05) as on:
        assert isinstance(on.rescheduler, Runs)
        await on.rescheduler.start()
        await until(lambda: algorithm.asked >= 3)
        assert await on.going() == ["web-0"]
        assert on.rescheduler.note() is None
        await on.rescheduler.stop()
        asked = algorithm.asked
        await asyncio.sleep(0.2)
        assert algorithm.asked == asked


async def test_a_failing_round_does_not_end_the_interval(
    caplog: pytest.LogCaptureFixture,
) -> None:
    algorithm = Failing()
    async with scene(algorithm, interval=0.02) as on:
        await on.rescheduler.start()
        await until(lambda: algorithm.asked >= 3)
        note = str(on.rescheduler.note())
        assert note.startswith(
            "the last round failed: Failing.reschedule: ZeroDivisionError: no idea"
        )
        tracebacks = [record for record in caplog.records if record.exc_info]
        assert [record.message for record in tracebacks] == ["The algorithm failed"]
        assert [record.message for record in caplog.records].count("Failing") == 1
        assert measured(on.rescheduler)["reschedules.failed"] >= 2
        await on.rescheduler.stop()


async def test_the_interval_waits_for_the_cluster() -> None:
    algorithm = Names("web-0")
    rescheduler = Rescheduler(algorithm, Kubeapi("http://127.0.0.1", 1), interval=0.02)
    await rescheduler.start()
    await until(lambda: "not known yet" in str(rescheduler.note()))
    await rescheduler.stop()
    assert algorithm.asked == 0


async def test_without_an_interval_nothing_runs() -> None:
    algorithm = Names("web-0")
    async with scene(algorithm) as on:
        await on.rescheduler.start()
        await asyncio.sleep(0.1)
        await on.rescheduler.stop()
        assert algorithm.asked == 0


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"interval": -1}, "reschedule_interval: -1 is not 0 or more seconds"),
    ({"limit": 0}, "reschedule_limit: 0 is less than 1"),
    ({"token_file": "/no/such/token"}, "reschedule_token_file: cannot read /no/such/token"),
]


@pytest.mark.parametrize(("options", "problem"), MISTAKES)
def test_mistakes_name_the_field(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Rescheduler(Names(), Kubeapi("http://127.0.0.1", 1), **options)
    assert str(raised.value).startswith(problem)


@pytest.mark.parametrize("options", [{"interval": 5}, {"by_get": True}])
def test_pods_cannot_be_deleted_without_a_cluster(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="needs `kubeapi: !Kubeapi`"):
        Rescheduler(Names(), None, **options)


def test_an_empty_token_is_none(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    with pytest.raises(ConfigError, match="token is empty"):
        Rescheduler(Names(), Kubeapi("http://127.0.0.1", 1), token_file=str(tmp_path / "token"))


async def test_score_moves_what_suits_persistent_memory() -> None:
    """Apps a (0.5), b (2) and c (9), of which only a is at most the target 1: a-0 sits on DRAM and
    would suit n1, b-0 sits on n1 and would not. n1 has 4 CPUs, b-0 needs 3 of them, a-0 needs 2:
    there is room for a-0 once b-0 has gone."""
    fake = FakePrometheus(
        {
            'app_req{dim="cpu"}': by("app", a=2, b=3, c=1),
            'app_req{dim="mem"}': by("app", a=1, b=1, c=1),
            "app_profile": by("app", a=0.5, b=2, c=9),
            "node_type": [
                ({"node": "n1", "nodetype": "pmem"}, 1),
                ({"node": "n2", "nodetype": "dram"}, 1),
            ],
        }
    )
    async with running_cluster() as cluster, serving(fake):
        cluster.node("n1", cpu="4")
        cluster.node("n2", cpu="4")
        for name, app, node in (("a-0", "a", "n2"), ("b-0", "b", "n1"), ("c-0", "c", "n2")):
            cluster.pod(name, app, node=node)
        prometheus = Prometheus("127.0.0.1", fake.port, timeout=5.0)
        async with following(cluster.kubeapi()) as kubeapi:
            provider = ClusterScoreDataProvider(kubeapi, prometheus)
            algorithm = Score(provider, score_target=1.0)
            async with started(prometheus):
                await until(lambda: prometheus.note() is None)
                done = await Rescheduler(algorithm, kubeapi).run_once()
                assert done.deleted == ["b-0", "a-0"]
