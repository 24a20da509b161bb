"""Ask a running scheduler over HTTPS, with the user's own credentials (`explain --server`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlsplit

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.errors import (
    ApiError,
    ApiUnavailable,
    ConfigError,
    Forbidden,
    NotFound,
    StowplanError,
    Unauthorized,
)
from stowplan.loader.json_text import load_json

T = TypeVar("T")

_TIMEOUT_S = 10.0


def scheduler_config(
    url: str,
    user: ClusterConfig,
    *,
    token: str = "",
    ca_file: str = "",
    insecure: bool = False,
) -> ClusterConfig:
    """The scheduler at `url`, with the credentials of a kubeconfig's user, or a token."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme != "https" or not parts.hostname or parts.username is not None:
        raise ConfigError("is not an address such as https://127.0.0.1:10259", where="--server")
    ca_data = user.ca_data
    if ca_file:
        try:
            ca_data = Path(ca_file).read_bytes()
        except OSError as problem:
            where = f"--certificate-authority {ca_file}"
            raise ConfigError(f"cannot be read: {problem.strerror}", where=where) from None
    if token:
        user = ClusterConfig(server=url, token=token)
    return replace(
        user,
        server=url.rstrip("/"),
        ca_data=None if insecure else ca_data,
        insecure_skip_tls_verify=insecure,
        tls_server_name="",
        impersonate=(),
        source="--server",
    )


async def ask(
    config: ClusterConfig,
    kind: type[T],
    *path: str,
    params: dict[str, str] | None = None,
    user_agent: str = "stowplan",
) -> T:
    """The answer at /v1/PATH; an error of one line says what is wrong, and what to do."""
    url = config.server
    place = "/v1/" + "/".join(quote(part, safe="") for part in path)
    try:
        async with ApiClient(config, user_agent=user_agent) as client:
            body = await client.request("GET", place, params=params, timeout_s=_TIMEOUT_S)
        return load_json(body, kind)
    except Forbidden as problem:
        raise Forbidden(
            f"the scheduler at {url}: {problem}. Fix: a role for /v1/* (docs/explain.md);"
            " a new one works after 10 s"
        ) from None
    except Unauthorized as problem:
        raise Unauthorized(
            f"the scheduler at {url} does not accept the credentials: {problem}. Fix: --token, or"
            " another --context"
        ) from None
    except NotFound as problem:
        raise _not_found(url, problem) from None
    except ApiUnavailable as problem:
        raise _unreachable(url, problem, insecure=config.insecure_skip_tls_verify) from None
    except ApiError as problem:
        raise type(problem)(f"the scheduler at {url}: {problem}", status=problem.status) from None
    except ValueError:
        raise _stranger(url) from None


def _not_found(url: str, problem: NotFound) -> StowplanError:
    is_ours = problem.reason == "NotFound" and "no such path" not in str(problem)
    return NotFound(str(problem)) if is_ours else _stranger(url)


def _stranger(url: str) -> StowplanError:
    return ConfigError(f"{url} is not a scheduler of this Stowplan version", where="--server")


def _unreachable(url: str, problem: ApiUnavailable, *, insecure: bool) -> ApiUnavailable:
    # The text names the API server, and the request, which says nothing to the user.
    why = str(problem).rpartition(f"{url}: ")[2].partition(": ")[2] or str(problem)
    fix = ""
    if "certificate" in why and not insecure:
        fix = ". Fix: --certificate-authority FILE, or --insecure-skip-tls-verify"
    return ApiUnavailable(f"the scheduler at {url}: {why}{fix}")
