"""An extender that a test steers: it says what it is told to say, when it is let to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.integration.http_thread import serving
from tests.integration.target import Json
from tests.waiting import wait_for

Says = Callable[[Json], Any]


def nodes_of(args: Json) -> list[str]:
    """The nodes that a request is about, by name or whole."""
    if args["NodeNames"] is not None:
        names: list[str] = args["NodeNames"]
        return names
    return [item["metadata"]["name"] for item in args["Nodes"]["items"]]


def keep(args: Json, *names: str) -> Json:
    """An answer that keeps these nodes, in the form in which they came."""
    if args["NodeNames"] is not None:
        return {"NodeNames": list(names)}
    items = [item for item in args["Nodes"]["items"] if item["metadata"]["name"] in names]
    return {"Nodes": {"items": items}}


class SteeredExtender:
    """`says` holds an answer for every verb; an exception becomes a 500."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/steered"
        self.says: dict[str, Says] = {}
        #: Verb and body of every request, in the order in which they came.
        self.heard: list[tuple[str, Json]] = []
        #: The header of each of them, "" if it had none.
        self.traceparents: list[str] = []
        #: Clear it, and requests wait.
        self.answers = threading.Event()
        self.answers.set()

    def bodies(self, verb: str) -> list[Json]:
        return [body for said, body in self.heard if said == verb]

    def wait_heard(self, verb: str, count: int = 1) -> list[Json]:
        wait_for(f"{count} {verb}", lambda: len(self.bodies(verb)) >= count)
        return self.bodies(verb)

    def entry(self, *verbs: str, **more: Any) -> str:
        """For `extenders:` of a configuration."""
        fields = {f"{verb}Verb": verb for verb in verbs}
        return f"extenders: [{json.dumps({'urlPrefix': self.url, **fields, **more})}]\n"


@contextmanager
def steered_extender() -> Iterator[SteeredExtender]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            verb = self.path.removeprefix("/steered/")
            extender.heard.append((verb, body))
            extender.traceparents.append(self.headers.get("traceparent", ""))
            extender.answers.wait(30)
            try:
                answer, status = extender.says[verb](body), 200
            except Exception as problem:
                answer, status = {"problem": repr(problem)}, 500
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Log no requests."""

    with serving(Handler) as port:
        extender = SteeredExtender(port)
        try:
            yield extender
        finally:
            extender.answers.set()
