"""docs/extender.md says what the code does, and its examples are those under examples/extender."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest
import yaml

from stowplan.cli.extender import extender
from stowplan.config.load import parse_config
from stowplan.extender.algorithms.nop import NOPAlgorithm
from stowplan.extender.configuration import Configured, load
from stowplan.extender.metrics import ServiceMetrics
from stowplan.extender.parts import Parts
from stowplan.extender.service import Service
from tests.unit.extender.kit import ARGS, stage

REPOSITORY = Path(__file__).parents[3]
PAGE = (REPOSITORY / "docs" / "extender.md").read_text()
EXAMPLE = REPOSITORY / "examples" / "extender"


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def code(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_examples_are_the_files() -> None:
    (algorithm,) = code("python")
    assert (EXAMPLE / "racks.py").read_text().partition("\n\n")[2] == algorithm
    config, scheduler, tls = code("yaml")
    assert (EXAMPLE / "config.yaml").read_text() == config
    assert (EXAMPLE / "kube-scheduler.yaml").read_text() == scheduler
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    for text, is_tls in ((scheduler, False), (head + tls, True)):
        (parsed,) = parse_config(text).extenders
        assert parsed.enable_https is is_tls


async def test_the_algorithm_does_what_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    configured = load(EXAMPLE / "config.yaml")
    pod = {"metadata": {"name": "x", "labels": {"rack": "a"}}}
    body = json.dumps({"Pod": pod, "NodeNames": ["a-1", "a-2", "b-1"]}).encode()
    async with stage(configured.algorithm) as served:
        answer = (await served.ask("/filter", body)).content
        assert answer["NodeNames"] == ["a-1", "a-2"]
        assert answer["FailedNodes"] == {"b-1": "node(s) not in rack a"}
        scores = (await served.ask("/prioritize", body)).content
        assert [score["Score"] for score in scores] == [1, 2, 1]


def test_the_containerfile_is_the_example_s() -> None:
    (shown,) = code("dockerfile")
    assert (EXAMPLE / "Containerfile").read_text().endswith(f"\n{shown}")


def test_every_flag_is_explained_with_its_default() -> None:
    shared = {"verbosity", "log_format", "help"}
    expected = {}
    for option in extender.params:
        assert isinstance(option, click.Option)
        if option.name not in shared:
            default = option.default if isinstance(option.default, str | int) else None
            expected[f"`{option.opts[0]}`"] = "" if default is None else f"`{default}`"
    assert {row[0]: row[1] for row in rows("Flags")} == expected


def test_every_path_is_explained() -> None:
    service = Service(NOPAlgorithm())
    Parts(Configured(NOPAlgorithm())).attach(service)
    expected = {(path, method) for path, methods in service.routes.items() for method in methods}
    told = {(path, row[1]) for row in rows("Paths") for path in re.findall(r"`(/[^`]*)`", row[0])}
    assert told == expected


def test_open_paths_are_explained() -> None:
    service = Service(NOPAlgorithm())
    Parts(Configured(NOPAlgorithm())).attach(service)
    expected = {
        path
        for path, methods in service.routes.items()
        for each in methods.values()
        if each.is_open
    }
    text = section("Authentication").partition(" are open")[0].rpartition("is enough")[2]
    assert {*re.findall(r"`(/[^`]*)`", text), "/reschedule"} == expected


def test_every_metric_is_explained() -> None:
    told = {name for row in rows("Metrics") for name in re.findall(r"`(wca_\w+)`", row[0])}
    lines = ServiceMetrics().lines()
    assert told == {line.split()[2] for line in lines if line.startswith("# TYPE ")}


async def test_the_shown_error_is_what_is_told() -> None:
    shown = re.search(r"`(\{\"Error\".*?\})`\. No", section("Limits"))
    assert shown is not None
    async with stage() as served:
        reply = await served.ask("/filter", json.dumps(ARGS | {"NodeNames": "n1"}).encode())
    assert reply.content == json.loads(shown[1])


def test_the_manifests_are_yaml() -> None:
    for text in code("yaml")[1:]:
        assert yaml.safe_load(text)["extenders"]
