"""The HTTPS port of a scheduler: TLS, delegated authentication and authorisation, and a site.

`serving` enters `https_port` before anything else, so that probes are answered while the API
server does not answer. Files are followed, and so are the CAs that the cluster publishes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Final

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.errors import ConfigError
from stowplan.http.server import HttpServer
from stowplan.http.tls_listener import TlsListener
from stowplan.http.watched_files import keep_loaded
from stowplan.logs import get_logger, kv
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.server.access_metrics import AccessMetrics
from stowplan.server.authentication import Authenticator
from stowplan.server.authorization import Authorizer, OpenPaths
from stowplan.server.client_cas import ClientCas
from stowplan.server.health import LIMITS, LINGER_S, Site, shown_address
from stowplan.server.https_site import HttpsSite
from stowplan.server.listen import open_port
from stowplan.server.secure_tls import secure_tls
from stowplan.server.serving_options import ServingOptions
from stowplan.server.work_queues import WorkQueues

log = get_logger(__name__)

#: Questions to /v1/decide may bring a cluster.
_LIMITS: Final = replace(LIMITS, max_body=4 * 1024 * 1024, small_body=LIMITS.max_body)


@asynccontextmanager
async def https_port(
    site: Site,
    options: ServingOptions,
    client: ApiClient,
    metrics: SchedulerMetrics,
    *,
    user_agent: str = "stowplan",
) -> AsyncIterator[int]:
    """Serve the site until the end of the context; gives the port. ConfigError if it cannot be.

    `client` is asked unless the options name other credentials. `metrics` get those of the port.
    """
    access, queues = AccessMetrics(), WorkQueues()
    metrics.include(*access.all(), *queues.all())
    async with AsyncExitStack() as opened:

        async def client_of(kubeconfig: str | None, flag: str) -> ApiClient:
            if kubeconfig is None:
                return client
            try:
                cluster = load_cluster_config(kubeconfig=kubeconfig)
            except ConfigError as error:
                raise ConfigError(str(error), where=flag) from None
            asking = ApiClient(cluster, user_agent=user_agent, observer=metrics.requests)
            return await opened.enter_async_context(asking)

        authentication = await client_of(
            options.authentication_kubeconfig, "--authentication-kubeconfig"
        )
        authorization = await client_of(
            options.authorization_kubeconfig, "--authorization-kubeconfig"
        )
        open_paths = OpenPaths(options.authorization_always_allow_paths)
        cas = ClientCas(options)
        if cas.is_looked_up and not options.authentication_tolerate_lookup_failure:
            await cas.look_up(authentication)
        tls = secure_tls(options, cas, queues)
        guarded = HttpsSite(
            site,
            Authenticator(
                cas, authentication, access, token_ttl_s=options.authentication_token_cache_ttl_s
            ),
            Authorizer(
                authorization,
                open_paths,
                access,
                allowed_ttl_s=options.authorization_authorized_cache_ttl_s,
                denied_ttl_s=options.authorization_unauthorized_cache_ttl_s,
            ),
            open_paths,
            access,
        )
        server = HttpServer(guarded, _LIMITS)
        host = options.bind_address
        listening = open_port(
            host,
            options.secure_port,
            flag="--secure-port, --bind-address",
            reuse_port=options.permit_port_sharing,
        )
        listener = TlsListener(server, tls, listening)
        tasks = [asyncio.create_task(keep_loaded([tls.files]), name="certificates")]
        if cas.is_looked_up:
            following = cas.follow(authentication, queues, tls.reload)
            tasks.append(asyncio.create_task(following, name="client CAs"))
        address = f"{shown_address(host)}:{listener.port}"
        log.info("Serving securely on %s", address, extra=kv(url=f"https://{address}"))
        try:
            yield listener.port
        finally:
            listener.close()
            for task in tasks:
                task.cancel()
            await server.stop(LINGER_S)
            log.info("Stopped listening on %s", address)
