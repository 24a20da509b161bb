"""/flagz and /debug/flags/v as kube-scheduler answers them; changes need the HTTPS port."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import msgspec
import pytest

from stowplan.http.messages import Request, Response
from stowplan.http.parser import parse_request
from stowplan.logs import set_verbosity
from stowplan.server.health import Site
from stowplan.server.zpages import add_zpages

FLAGS = {"v": "2", "bind-address": "0.0.0.0"}


@pytest.fixture
def site() -> Site:
    site = Site()
    add_zpages(site, FLAGS, profiling=True)
    return site


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    logger = logging.getLogger("stowplan")
    before = logger.level
    yield
    logger.setLevel(before)


def asked(path: str, accept: str = "*/*", body: bytes = b"", method: str = "GET") -> Request:
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}"
    return Request(parse_request(head.encode()), body)


def answered(site: Site, request: Request) -> Response:
    answer = site.answer(request)
    assert isinstance(answer, Response)
    return answer


def test_flags_as_text_are_sorted(site: Site) -> None:
    text = answered(site, asked("/flagz")).body.decode()
    assert text.splitlines()[1] == "kube-scheduler flagz"
    assert text.splitlines()[3:] == ["bind-address 0.0.0.0", "v 2"]


def test_flags_as_json(site: Site) -> None:
    accept = "text/html, application/json; v=v1beta1; g=config.k8s.io; as=Flagz"
    answer = answered(site, asked("/flagz", accept))
    assert answer.content_type == "application/json;g=config.k8s.io;v=v1beta1;as=Flagz"
    assert msgspec.json.decode(answer.body) == {
        "kind": "Flagz",
        "apiVersion": "config.k8s.io/v1beta1",
        "metadata": {"name": "kube-scheduler"},
        "flags": FLAGS,
    }


def test_flags_as_yaml(site: Site) -> None:
    accept = "application/yaml;v=v1alpha1;g=config.k8s.io;as=Flagz"
    answer = answered(site, asked("/flagz", accept))
    assert answer.content_type == "application/yaml;g=config.k8s.io;v=v1alpha1;as=Flagz"
    assert msgspec.yaml.decode(answer.body)["flags"] == FLAGS


@pytest.mark.parametrize("accept", ["", "*/*", "text/plain;q=0.5", "text/html, text/*"])
def test_text(site: Site, accept: str) -> None:
    assert answered(site, asked("/flagz", accept)).content_type.startswith("text/plain")


@pytest.mark.parametrize(
    "accept",
    ["application/json", "application/json;v=v9;g=config.k8s.io;as=Flagz", ";;=,", "a=b;as"],
)
@pytest.mark.parametrize("path", ["/flagz", "/statusz"])
def test_other_types_are_refused(site: Site, path: str, accept: str) -> None:
    assert answered(site, asked(path, accept)).status == 406


def put(site: Site, body: bytes) -> Response:
    answer = site.restricted["/debug/flags/v"](asked("/debug/flags/v", body=body, method="PUT"))
    assert isinstance(answer, Response)
    return answer


def test_the_verbosity_changes(site: Site) -> None:
    logger = logging.getLogger("stowplan.zpages-test")
    set_verbosity(0)
    assert not logger.isEnabledFor(logging.INFO - 4)
    assert put(site, b"4").body == b"successfully set klog.logging.verbosity to 4\n"
    assert logger.isEnabledFor(logging.INFO - 4)
    assert not logger.isEnabledFor(logging.INFO - 5)


@pytest.mark.parametrize("body", [b"", b"x", b"-1", b"1000", b"\xb2", b"\xff" * 60_000])
def test_other_values_change_nothing(site: Site, body: bytes) -> None:
    before = logging.getLogger("stowplan").level
    answer = put(site, body)
    assert (answer.status, len(answer.body) < 200) == (400, True)
    assert logging.getLogger("stowplan").level == before


def test_nothing_changes_over_plain_http(site: Site) -> None:
    refusal = site.refuse(asked("/debug/flags/v", body=b"4", method="PUT").head, None)
    assert refusal is not None
    assert refusal.status == 404


def test_without_profiling_there_is_no_such_path() -> None:
    site = Site()
    add_zpages(site, {}, profiling=False)
    assert sorted(site.routes) == ["/statusz"]
    assert site.restricted == {}
