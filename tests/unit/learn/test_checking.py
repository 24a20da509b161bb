"""What checks are written with: programs beside a scenario, what they print and log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from stowplan.errors import StowplanError
from stowplan.learn.checking import (
    FAULTS,
    Mistake,
    Running,
    call,
    logged,
    manifests,
    play,
    printed,
    start,
)
from stowplan.learn.faults import LearnerErrors
from stowplan.learn.texts import Texts
from stowplan.sim.scenarios import Cluster, Options


@pytest.fixture(autouse=True)
def faults(tmp_path: Path) -> Iterator[LearnerErrors]:
    listening = LearnerErrors(tmp_path / "scheduler.py", Texts("en"))
    token = FAULTS.set(listening)
    yield listening
    FAULTS.reset(token)


def test_a_mistake_in_a_scenario_comes_out_as_it_is() -> None:
    async def scenario(cluster: Cluster) -> None:
        raise Mistake("wrong", found=1)

    with pytest.raises(Mistake) as caught:
        play(scenario, "virtual")
    assert caught.value.key == "wrong"
    assert caught.value.fields == {"found": 1}


def test_nobody_schedules_unless_asked_to() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create_node("alpha")
        await cluster.create_pod("web")
        await cluster.sleep(5)

    assert play(scenario, "virtual").placements == {"default/web": ""}
    scheduled = play(scenario, "virtual", Options(with_scheduler=True))
    assert scheduled.placements == {"default/web": "alpha"}


def test_a_target_that_there_is_not_is_told() -> None:
    async def scenario(cluster: Cluster) -> None:
        pass

    with pytest.raises(StowplanError):
        play(scenario, "no-such-kubeconfig")


def test_a_program_ends_with_the_scenario() -> None:
    seen: list[float] = []
    programs: list[Running] = []

    async def program(every: float) -> None:
        while True:
            await asyncio.sleep(every)
            seen.append(every)

    async def scenario(cluster: Cluster) -> None:
        programs.append(start(cluster, program, 2.0))
        await cluster.sleep(7)
        programs[0].must_go_on()

    play(scenario, "virtual")
    assert seen == [2.0, 2.0, 2.0]
    assert programs[0].has_ended
    assert programs[0].error is None


def test_the_error_of_a_program_ends_only_the_program(faults: LearnerErrors) -> None:
    async def program() -> None:
        raise ValueError("oh")

    async def scenario(cluster: Cluster) -> None:
        running = start(cluster, program)
        await cluster.sleep(1)
        assert isinstance(running.error, ValueError)
        with pytest.raises(Mistake, match="ended_by_error"):
            running.must_go_on()

    assert play(scenario, "virtual").is_ok
    assert faults.told == ["ValueError: oh"]


def test_a_program_that_ends_by_itself_is_a_mistake() -> None:
    async def program() -> None:
        pass

    async def scenario(cluster: Cluster) -> None:
        running = start(cluster, program)
        await cluster.sleep(1)
        running.must_go_on()

    with pytest.raises(Mistake, match="ended_itself") as caught:
        play(scenario, "virtual")
    assert caught.value.at is program


def test_a_program_is_not_started_with_what_it_does_not_take() -> None:
    async def program(api: object) -> None:
        pass

    async def scenario(cluster: Cluster) -> None:
        start(cluster, program)

    with pytest.raises(Mistake, match="part_takes_other_things"):
        play(scenario, "virtual")


def test_calls_that_fit_and_calls_that_do_not() -> None:
    def double(number: int) -> int:
        return 2 * number

    assert call(double, 21) == 42
    with pytest.raises(Mistake, match="part_takes_other_things"):
        call(double, 1, 2)
    assert call(max, 1, 2) == 2


def test_an_error_within_a_call_is_not_taken_for_its_parameters() -> None:
    def broken(number: int) -> int:
        return len(number)  # type: ignore[arg-type]  # wrong on purpose

    with pytest.raises(TypeError):
        call(broken, 1)


def test_what_python_itself_refuses_to_call_is_a_mistake() -> None:
    class Odd:
        def __init__(self) -> None:
            return "x"  # type: ignore[return-value] # noqa: PLE0101  # wrong on purpose

    with pytest.raises(Mistake, match="part_fails"):
        call(Odd)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ("text", "all of it"),
        ({"kind": "Pod", "metadata": {"name": "a"}}, "apiVersion"),
        ({"apiVersion": [], "kind": "Pod", "metadata": {"name": "a"}}, "apiVersion"),
        ({"apiVersion": "v1", "metadata": {"name": "a"}}, "kind"),
        ({"apiVersion": "v1", "kind": "Pod"}, "metadata"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": ["a"]}, "metadata"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {}}, "metadata.name"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 1}}, "metadata.name"),
        (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": []}},
            "metadata.namespace",
        ),
    ],
)
def test_documents_that_are_no_manifests(document: object, field: str) -> None:
    good = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    assert manifests([good]) == [good]
    with pytest.raises(Mistake) as caught:
        manifests([good, document])
    assert caught.value.fields["field"] == field
    assert caught.value.fields["number"] == 2


def test_what_is_printed_is_kept_and_still_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with printed() as out:
        print("one", end="")
        print(" line")
        print("two\nthree", flush=True)
    print("after")
    assert out.lines == ["one line", "two", "three"]
    assert capsys.readouterr().out == "one line\ntwo\nthree\nafter\n"


def test_what_is_logged_is_kept_but_not_what_we_log() -> None:
    level = logging.getLogger().level
    with logged() as messages:
        logging.getLogger("learner").info("found %s", "it")
        logging.getLogger("learner").debug("not this")
        logging.getLogger("stowplan.api").error("nor this")
    logging.getLogger("learner").warning("nor this")
    assert messages == ["found it"]
    assert logging.getLogger().level == level
