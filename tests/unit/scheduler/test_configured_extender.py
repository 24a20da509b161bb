"""Extenders as they are configured: who is asked what, in which order, and what is a mistake."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stowplan.api.objects import Container, Pod, Quantities, ResourceRequirements
from stowplan.config.load import parse_config
from stowplan.config.types import Extender, ExtenderManagedResource
from stowplan.errors import ConfigError
from stowplan.plugins.node_resources_fit import NodeResourcesFit
from stowplan.plugins.registry import in_tree_registry
from stowplan.redaction import redact_url
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.configured_extender import ConfiguredExtender
from stowplan.scheduler.engine import Engine
from stowplan.testing import pod

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def engine(text: str) -> Engine:
    return build_engine(parse_config(HEADER + text), registry=in_tree_registry(), where="f.yaml")


def mistakes(text: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        engine(text)
    return str(refused.value).split("\n")


def test_those_that_may_fail_are_asked_last() -> None:
    built = engine(
        "extenders:\n"
        "- {urlPrefix: 'http://a', ignorable: true}\n"
        "- {urlPrefix: 'http://b'}\n"
        "- {urlPrefix: 'http://c', ignorable: true}\n"
        "- {urlPrefix: 'http://d'}\n"
    )
    assert [extender.name[-1] for extender in built.extenders] == ["b", "d", "a", "c"]


def test_a_verb_is_what_is_asked() -> None:
    bare, full = engine(
        "extenders:\n"
        "- {urlPrefix: 'http://a'}\n"
        "- {urlPrefix: 'http://b', filterVerb: f, prioritizeVerb: p, weight: 1, preemptVerb: e,"
        " bindVerb: b}\n"
    ).extenders
    for extender, has in ((bare, False), (full, True)):
        verbs = (extender.filters, extender.prioritizes, extender.preempts, extender.binds)
        assert verbs == (has,) * 4


def managing(*names: str) -> ConfiguredExtender:
    resources = tuple(ExtenderManagedResource(name) for name in names)
    return ConfiguredExtender(Extender(url_prefix="http://x", managed_resources=resources))


@pytest.mark.parametrize(
    ("wanted", "interested"),
    [
        ({}, False),
        ({"requests": {"example.com/gpu": "1"}}, True),
        ({"requests": {"example.com/gpu": "0"}}, True),
        ({"limits": {"example.com/gpu": "1"}}, True),
        ({"init_requests": {"example.com/gpu": "1"}}, True),
        ({"requests": {"cpu": "1"}}, False),
    ],
)
def test_interest_is_a_matter_of_managed_resources(
    wanted: dict[str, Any], interested: bool
) -> None:
    asking = container_pod(**wanted)
    assert managing("example.com/gpu", "example.com/fpga").is_interested(asking) is interested
    assert managing().is_interested(asking)


def container_pod(
    requests: Quantities | None = None,
    limits: Quantities | None = None,
    init_requests: Quantities | None = None,
) -> Pod:
    plain = pod()
    one = Container(name="c", resources=ResourceRequirements(requests=requests, limits=limits))
    first = Container(name="i", resources=ResourceRequirements(requests=init_requests))
    spec = msgspec.structs.replace(
        plain.spec, containers=(one, Container(name="bare")), init_containers=(first,)
    )
    return msgspec.structs.replace(plain, spec=spec)


def test_what_only_an_extender_counts_the_fit_plugin_ignores() -> None:
    built = engine(
        "extenders: [{urlPrefix: 'http://a', managedResources: [{name: example.com/gpu,"
        " ignoredByScheduler: true}, {name: example.com/fpga}]}]\n"
        "profiles:\n"
        "- schedulerName: one\n"
        "- schedulerName: two\n"
        "  pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [example.com/old],"
        " scoringStrategy: {type: MostAllocated}}}]\n"
    )
    fits = [profile.plugins["NodeResourcesFit"] for profile in built.profiles.values()]
    args = [fit.args for fit in fits if isinstance(fit, NodeResourcesFit)]
    ignored = [each.ignored_resources for each in args]
    assert ignored == [("example.com/gpu",)] * 2, "as upstream: in place of their own"
    assert args[1].scoring_strategy.type == "MostAllocated"


@pytest.mark.parametrize(
    "url", ["", "x", "ftp://x", "http://", "http://x:99999", "http://x/a b", "http://x?q=1"]
)
def test_an_extender_must_be_somewhere(url: str) -> None:
    (told,) = mistakes(f"extenders: [{{urlPrefix: '{url}'}}]\n")
    assert told == (
        f'f.yaml: extenders[0].urlPrefix: Invalid value: "{redact_url(url)}": '
        "must be an http or https URL with a host"
    )


def test_mistakes_of_several_extenders_are_told_at_once() -> None:
    *told, last = mistakes(
        "extenders:\n"
        "- {urlPrefix: 'https://a', tlsConfig: {caFile: /nowhere/ca.pem}}\n"
        "- {urlPrefix: 'https://b', tlsConfig: {caData: bm8=}}\n"
        "- {urlPrefix: 'https://c', tlsConfig: {certData: bm8=}}\n"
        "- {urlPrefix: 'https://d', tlsConfig: {insecure: true, caData: bm8=}}\n"
        "- {urlPrefix: 'https://e', tlsConfig: {certData: bm8=, keyData: bm8=}}\n"
    )
    assert [line.removeprefix("f.yaml: ") for line in told] == [
        "extenders[0].tlsConfig: /nowhere/ca.pem cannot be read: No such file or directory",
        "extenders[1].tlsConfig: the certificate authority is not usable PEM: no certificate in it",
        "extenders[2].tlsConfig: a client certificate needs its key, and the key its certificate",
        "extenders[3].tlsConfig: insecure disables verification, so remove either the CA or "
        "insecure",
    ]
    assert last.startswith(
        "f.yaml: extenders[4].tlsConfig: the client certificate and key are not usable: "
    )
