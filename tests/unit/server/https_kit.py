"""An HTTPS port over real sockets, its clients, and an API server that counts reviews."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.server.health import HealthServer
from stowplan.server.https import https_port
from stowplan.server.serving_options import ServingOptions
from tests.unit.api.tls_kit import Pair

# A port that the system chooses: https_port takes any number, 0 among them.
ANY = ServingOptions(secure_port=0, authentication_skip_lookup=True)


class Api:
    """Knows every token that begins with `good`, and allows /metrics to its users."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.problem: Exception | None = None
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def request(self, method: str, path: str, *, body: bytes = b"", **_: Any) -> bytes:
        self.asked.append(path.rpartition("/")[2])
        await self.may_answer.wait()
        if self.problem is not None:
            raise self.problem
        spec = msgspec.json.decode(body)["spec"]
        if "token" in spec:
            is_known = spec["token"].startswith("good")
            user = {"username": spec["token"][:20], "groups": ["g" * 100]}
            status: object = {"authenticated": is_known, "user": user if is_known else {}}
        else:
            is_allowed = spec["nonResourceAttributes"]["path"] == "/metrics"
            status = {"allowed": is_allowed and spec["user"].startswith("good")}
        return msgspec.json.encode({"status": status})

    async def close(self) -> None:
        """Nothing is open."""


@asynccontextmanager
async def served(options: ServingOptions = ANY, api: Api | None = None) -> AsyncIterator[int]:
    client = ApiClient(ClusterConfig(server="http://127.0.0.1:1"), transport=api or Api())  # type: ignore[arg-type]  # a stand-in for requests alone
    metrics = SchedulerMetrics()
    site = HealthServer(metrics).site
    async with https_port(site, options, client, metrics) as port:
        yield port


def trusting(pem: bytes | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=pem.decode() if pem else None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if pem is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def get(
    port: int,
    path: str = "/healthz",
    token: str = "",
    *,
    tls: ssl.SSLContext | None = None,
    name: str = "127.0.0.1",
) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=tls or trusting(), server_hostname=name
    )
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    head += f"Authorization: Bearer {token}\r\n" if token else ""
    writer.write(f"{head}\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return int(answer.split(" ", 2)[1]), answer.partition("\r\n\r\n")[2]


def store(folder: Path, pair: Pair, name: str = "tls") -> tuple[Path, Path]:
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    certificate.write_bytes(pair.cert)
    key.write_bytes(pair.key)
    return certificate, key


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - nothing tells when
            await asyncio.sleep(0.01)


async def sent(port: int, data: bytes) -> bytes:
    """All that a client gets that sends these bytes without TLS."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()


def showing(folder: Path, pair: Pair) -> ssl.SSLContext:
    """TLS of a client that shows a certificate."""
    file = folder / "client.pem"
    file.write_bytes(pair.cert + pair.key)
    context = trusting()
    context.load_cert_chain(file)
    return context
