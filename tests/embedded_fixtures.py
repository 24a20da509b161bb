"""The embedded API server for tests, in a thread with an event loop of its own.

Loaded by tests/conftest.py. `embedded_server` is the counterpart of `control_plane`: shared by a
module, nothing but the test touches what is created there (no pretend kubelet). A test that wants
other options uses `running_embedded_server(...)` as a context manager. The server's objects belong
to its thread: reach them through `call`, never directly.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.server import ApiServer

T = TypeVar("T")
NO_KUBELET = KubeletOptions(enabled=False)
_PATIENCE = 30.0


class EmbeddedServer:
    """A running `ApiServer` as seen from another thread."""

    def __init__(
        self, server: ApiServer, loop: asyncio.AbstractEventLoop, kubeconfig_path: Path
    ) -> None:
        self._server = server
        self._loop = loop
        self.kubeconfig_path = kubeconfig_path

    @property
    def url(self) -> str:
        return self._server.url

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine that runs in the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE)

    def call(self, work: Callable[[ApiServer], T]) -> T:
        """The result of a function that is given the server, in the server's thread."""

        async def in_loop() -> T:
            return work(self._server)

        return self.run(in_loop())


@contextmanager
def running_embedded_server(
    directory: Path, *, kubelet: KubeletOptions = NO_KUBELET, **options: Any
) -> Iterator[EmbeddedServer]:
    """A server on a free loopback port; `options` are those of `ApiServer`.

    `directory` gets the kubeconfig file.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="embedded-api-server", daemon=True)
    thread.start()
    server = ApiServer(kubelet=kubelet, **options)
    path = directory / "embedded.kubeconfig"
    running = EmbeddedServer(server, loop, path)
    try:
        running.run(server.start())
        path.write_text(server.kubeconfig())
        yield running
    finally:
        running.run(server.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE)
        loop.close()


@pytest.fixture(scope="module")
def embedded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """An embedded API server that holds only what every cluster has."""
    with running_embedded_server(tmp_path_factory.mktemp("embedded")) as running:
        yield running
