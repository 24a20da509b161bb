"""/statusz, /flagz and /debug/flags/v: what runs, with which flags, and how much it logs.

`serving` adds them to the site. Texts and JSON are kube-scheduler's, under its name, because tools
look for it; only the version of Go is Python's. Secrets never are flags, but files that hold them.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

import msgspec

from stowplan import __version__
from stowplan.http.messages import JSON, TEXT, Request, Response
from stowplan.logs import set_verbosity
from stowplan.server.health import Site
from stowplan.server.profile import Profiler
from stowplan.server.status_response import status_response

COMPONENT: Final = "kube-scheduler"
#: The Kubernetes version whose scheduler this one is like.
EMULATED: Final = "1.36"
_WARNING: Final = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility"
    " guarantees and is for debugging purposes only."
)
_LISTED: Final = ("/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz")
_PLAIN: Final = "text/plain"
_TEXTS: Final = ("*/*", "text/*", _PLAIN)
_OBJECTS: Final = (JSON, "application/yaml")
_KNOWN_VERSIONS: Final = ("v1alpha1", "v1beta1")


def add_zpages(
    site: Site, flags: Mapping[str, str], *, version: str = __version__, profiling: bool
) -> None:
    """Add the pages; `flags` are what /flagz shows, `version` is that of the binary."""
    started = time.time()

    def statusz(request: Request) -> Response:
        asked = _asked_format(request, "Statusz")
        if asked is None:
            return _not_acceptable()
        up = max(0, int(time.time() - started))
        facts = {
            "startTime": datetime.fromtimestamp(int(started), UTC).isoformat()[:19] + "Z",
            "uptimeSeconds": up,
            "goVersion": f"python{platform.python_version()}",
            "binaryVersion": version,
            "emulationVersion": EMULATED,
            "paths": [path for path in _LISTED if path in site.routes],
        }
        if asked:
            return _object("Statusz", *asked, facts)
        when = datetime.fromtimestamp(started, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
        lines = [
            f"Started:  {when}",
            f"Up:  {up // 3600} hr {up // 60 % 60:02d} min {up % 60:02d} sec",
            f"Python version:  {platform.python_version()}",
            f"Binary version:  {version}",
            f"Emulation version:  {EMULATED}",
            f"Paths:  {' '.join(path for path in _LISTED if path in site.routes)}",
        ]
        return _text("statusz", ["", *lines])

    def flagz(request: Request) -> Response:
        asked = _asked_format(request, "Flagz")
        if asked is None:
            return _not_acceptable()
        if asked:
            return _object("Flagz", *asked, {"flags": dict(sorted(flags.items()))})
        return _text("flagz", [f"{name} {value}" for name, value in sorted(flags.items())])

    site.routes["/statusz"] = statusz
    if flags:
        site.routes["/flagz"] = flagz
    if profiling:
        site.restricted["/debug/flags/v"] = _put_verbosity
        site.restricted["/debug/pprof/profile"] = Profiler()


def _put_verbosity(request: Request) -> Response:
    if request.head.method != "PUT":
        return Response(b"unsupported http method\n", HTTPStatus.NOT_ACCEPTABLE.value, _PLAIN)
    text = bytes(request.body).decode("latin-1")
    if not (text.isascii() and text.isdigit() and len(text) < 4):
        problem = f'strconv.ParseUint: parsing "{text[:40]}": invalid syntax\n'
        return Response(problem.encode("latin-1"), HTTPStatus.BAD_REQUEST.value, _PLAIN)
    set_verbosity(int(text))
    done = f"successfully set klog.logging.verbosity to {text}\n"
    return Response(done.encode(), 200, _PLAIN)


def _asked_format(request: Request, kind: str) -> tuple[str, str] | tuple[()] | None:
    """The media type and version of the object that the client accepts.

    Empty for text; None if the client accepts nothing that there is.
    """
    accepted = request.head.headers.get("accept")
    for part in accepted.split(","):
        media, *parameters = (each.strip() for each in part.split(";"))
        if media in _TEXTS:
            return ()
        wanted = dict(each.partition("=")[::2] for each in parameters)
        is_asked = wanted.get("g") == "config.k8s.io" and wanted.get("as") == kind
        if media in _OBJECTS and is_asked and wanted.get("v") in _KNOWN_VERSIONS:
            return media, wanted["v"]
    return None if accepted else ()


def _not_acceptable() -> Response:
    problem = "only the following media types are accepted: " + ", ".join((*_OBJECTS, _PLAIN))
    return status_response(HTTPStatus.NOT_ACCEPTABLE, problem)


def _object(kind: str, media: str, version: str, facts: Mapping[str, Any]) -> Response:
    found = {
        "kind": kind,
        "apiVersion": f"config.k8s.io/{version}",
        "metadata": {"name": COMPONENT},
        **facts,
    }
    body = msgspec.json.encode(found) + b"\n" if media == JSON else msgspec.yaml.encode(found)
    return Response(body, 200, f"{media};g=config.k8s.io;v={version};as={kind}")


def _text(page: str, lines: list[str]) -> Response:
    text = "\n".join(["", f"{COMPONENT} {page}", _WARNING, *lines, ""])
    return Response(text.encode("utf-8", "replace"), 200, TEXT)
