"""Routes under /v1/: paths with parameters, methods, and errors of one shape."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from stowplan.http.messages import Request, Response
from stowplan.http.parser import parse_request
from stowplan.server.health import Site
from stowplan.server.v1 import V1, errors


def sent(method: str, path: str) -> Request:
    return Request(parse_request(f"{method} {path} HTTP/1.1\r\nHost: x".encode()), b"")


def echo(_: Request, values: Mapping[str, str]) -> Response:
    return Response(msgspec.json.encode(values))


@pytest.fixture
def v1() -> V1:
    api = V1(Site())
    api.add("GET", "/v1/things/{namespace}/{name}", echo, {"responses": errors(_404="none")})
    return api


def answer(v1: V1, method: str, path: str) -> Response:
    response = v1.answer(sent(method, path))
    assert isinstance(response, Response)
    return response


@pytest.mark.parametrize("path", ["/v1/things/a/b", "/v1/things/%61/b", "/v1/things/a%2Fb"])
def test_parameters_are_taken_from_the_path_that_was_authorised(v1: V1, path: str) -> None:
    response = answer(v1, "GET", path)
    assert msgspec.json.decode(response.body) == {"namespace": "a", "name": "b"}


@pytest.mark.parametrize(
    ("method", "path", "code", "message"),
    [
        ("GET", "/v1/", 404, "no such path; there are /v1/openapi.json, /v1/things/"),
        ("GET", "/v1/things/a/", 404, "no such path"),
        ("GET", "/v1/things/a/b/c", 404, "no such path"),
        ("POST", "/v1/things/a/b", 405, "POST is not allowed here. Fix: use GET, HEAD"),
    ],
)
def test_errors_are_status_objects(v1: V1, method: str, path: str, code: int, message: str) -> None:
    response = answer(v1, method, path)
    said = msgspec.json.decode(response.body)
    assert (response.status, said["code"], said["kind"]) == (code, code, "Status")
    assert said["message"].startswith(message)
    assert ("Allow" in response.headers) == (code == 405)


def test_the_document_has_every_operation(v1: V1) -> None:
    document = msgspec.json.decode(answer(v1, "GET", "/v1/openapi.json").body)
    assert set(document["paths"]) == {"/v1/openapi.json", "/v1/things/{namespace}/{name}"}
    responses = document["paths"]["/v1/things/{namespace}/{name}"]["get"]["responses"]
    assert {"400", "401", "403", "404", "405", "429"} == set(responses)
