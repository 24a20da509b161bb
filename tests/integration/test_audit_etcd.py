"""`stowplan audit --etcd` and `--history`: a history that is incomplete or empty is an error."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.integration.http_thread import serving
from tests.integration.test_audit import audit
from tests.unit.audit.cluster import Json, node, pod

NODE = json.dumps(node("n1")).encode()
POD = json.dumps(pod("a")).encode()


@contextmanager
def etcd(stored: Mapping[str, bytes]) -> Iterator[str]:
    """The JSON gateway of an etcd in which each key was written once, in this order."""
    events = [
        {"kv": {"key": _b64(key.encode()), "value": _b64(value), "mod_revision": str(number)}}
        for number, (key, value) in enumerate(stored.items(), start=1)
    ]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            answer: Json = {"header": {"revision": str(len(events))}}
            if self.path == "/v3/watch":
                answer = {"result": {"events": events}}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode() + b"\n")

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as port:
        yield f"http://127.0.0.1:{port}"


def _b64(data: bytes) -> str:
    return b64encode(data).decode()


def test_a_history_that_fails_midway_leaves_no_file(tmp_path: Path) -> None:
    file = tmp_path / "h.jsonl"
    with etcd({"/registry/minions/n1": NODE, "/registry/pods/default/a": b"k8s\0..."}) as url:
        done = audit("--etcd", url, "--save-history", str(file))
        assert (done.returncode, done.stdout) == (1, "")
        assert "/registry/pods/default/a is stored as protobuf. Fix: " in done.stderr
        assert list(tmp_path.iterdir()) == []
        file.write_text("earlier")
        assert audit("--etcd", url, "--save-history", str(file)).returncode == 1
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [
        ("h.jsonl", "earlier")
    ]


def test_a_whole_history_is_saved(tmp_path: Path) -> None:
    file = tmp_path / "h.jsonl"
    with etcd({"/registry/minions/n1": NODE, "/registry/pods/default/a": POD}) as url:
        done = audit("--etcd", url, "--save-history", str(file))
    assert done.returncode == 0, done.stderr
    assert "2 revisions" in done.stdout
    assert [each.name for each in tmp_path.iterdir()] == ["h.jsonl"]
    assert audit("--history", str(file)).stdout == done.stdout


def test_an_etcd_without_kubernetes_is_not_clean(tmp_path: Path) -> None:
    file = tmp_path / "h.jsonl"
    with etcd({"/calico/x": b"y"}) as url:
        done = audit("--etcd", url, "--save-history", str(file))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"Error: etcd at {url}: no nodes, pods or other objects under /registry/. "
        "Fix: give the address of kube-apiserver's etcd\n"
    )
    assert not file.exists()


def test_an_empty_history_is_not_clean(tmp_path: Path) -> None:
    file = tmp_path / "h.jsonl"
    file.touch()
    done = audit("--history", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"Error: {file}: holds no history. Fix: write it again with --etcd and --save-history\n"
    )


def test_a_folder_is_no_place_for_a_history(tmp_path: Path) -> None:
    with etcd({"/registry/minions/n1": NODE}) as url:
        for place in (tmp_path, tmp_path / "none" / "h.jsonl"):
            done = audit("--etcd", url, "--save-history", str(place))
            assert (done.returncode, done.stdout) == (2, "")
            assert done.stderr.startswith(f"Error: {place}: cannot be written: ")
    assert list(tmp_path.iterdir()) == []
