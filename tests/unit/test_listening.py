"""Every command listens on loopback unless it is told otherwise; every manifest says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from stowplan.cli.flag_options import FlagOption
from stowplan.cli.main import cli
from stowplan.config.load import default_config
from stowplan.extender.serving import ExtenderOptions
from stowplan.server.serving import ServeOptions
from stowplan.server.serving_options import ServingOptions
from stowplan.static.settings import StaticSettings

LOOPBACK = "127.0.0.1"
DEPLOY = Path(__file__).parents[2] / "deploy"


def address_options() -> Iterator[Any]:
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        # In kube-scheduler's place it has kube-scheduler's default, with authentication.
        for option in command.params if command is not None and name != "kube-scheduler" else ():
            if {"--host", "--bind-address"} & {*option.opts}:
                yield pytest.param(option, id=name)


@pytest.mark.parametrize("option", list(address_options()))
def test_commands_listen_on_loopback(option: click.Option) -> None:
    if isinstance(option, FlagOption):
        assert f"[default: {LOOPBACK}]" in (option.help or "")
        return
    assert option.default == LOOPBACK
    assert option.show_default


def test_the_commands_with_an_address_are_found() -> None:
    names = {str(each.id) for each in address_options()}
    assert names == {"apiserver", "console", "extender", "run", "static"}


def test_schedulers_made_in_python_listen_on_loopback() -> None:
    assert ServeOptions(config=default_config()).serving is None
    assert ServingOptions().bind_address == LOOPBACK
    assert ExtenderOptions().bind_address == LOOPBACK
    assert StaticSettings().bind_address == LOOPBACK


def containers() -> Iterator[Any]:
    for file in sorted(DEPLOY.rglob("*.yaml")):
        text = file.read_text()
        if "{{" in text:
            continue  # of the Helm chart, whose rendered commands have tests of their own
        if "kind: Deployment" not in text and "kind: Pod\n" not in text:
            continue
        for document in yaml.safe_load_all(text):
            if document["kind"] not in ("Deployment", "Pod"):
                continue
            spec = document["spec"]
            for container in spec.get("template", {}).get("spec", spec)["containers"]:
                if "extender" in container.get("args", ()) and any(
                    word.startswith("--socket") for word in container["args"]
                ):
                    continue  # nginx has the port
                if "record" in container.get("args", ()):
                    continue  # it serves nothing
                if container.get("args"):
                    yield pytest.param(container, id=str(file.relative_to(DEPLOY)))


@pytest.mark.parametrize("container", list(containers()))
def test_manifests_open_their_ports_in_so_many_words(container: dict[str, Any]) -> None:
    """Probes and Prometheus come from outside of the pod."""
    variables = {each["name"]: each.get("value") for each in container.get("env", ())}
    said = "--bind-address=0.0.0.0" in container["args"]
    assert said or variables.get("SCHED_BIND_ADDRESS") == "0.0.0.0"
