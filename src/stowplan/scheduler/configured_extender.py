"""Extenders as the configuration names them: which questions each answers, and how to reach it.

`assembly` makes them, so that what is wrong with one is said at the start; the cycle asks them
which verbs they have, `extender_client` where they listen.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.objects import Pod
from stowplan.api.tls import build_context
from stowplan.config import types as config_types
from stowplan.config.fields import FieldError, invalid
from stowplan.errors import ConfigError
from stowplan.redaction import redact_url


@dataclass(frozen=True, eq=False)
class ConfiguredExtender:
    """One extender; `Extender` of `extender_requests`."""

    settings: config_types.Extender
    tls: ssl.SSLContext | None = None

    @cached_property
    def name(self) -> str:
        """Upstream's name for the extender in messages, without a password: events are readable by
        many users."""
        return redact_url(self.settings.url_prefix)

    @property
    def filters(self) -> bool:
        return bool(self.settings.filter_verb)

    @property
    def prioritizes(self) -> bool:
        return bool(self.settings.prioritize_verb)

    @property
    def preempts(self) -> bool:
        return bool(self.settings.preempt_verb)

    @property
    def binds(self) -> bool:
        return bool(self.settings.bind_verb)

    @property
    def is_ignorable(self) -> bool:
        return self.settings.ignorable

    @property
    def wants_nodes(self) -> bool:
        """Whole nodes are sent to it."""
        return not self.settings.node_cache_capable and (self.filters or self.prioritizes)

    @property
    def wants_victims(self) -> bool:
        """Whole pods that would be evicted are sent to it."""
        return not self.settings.node_cache_capable and self.preempts

    @cached_property
    def managed(self) -> frozenset[str]:
        return frozenset(resource.name for resource in self.settings.managed_resources)

    def is_interested(self, pod: Pod) -> bool:
        """Whether a container asks for a resource that this extender manages, if it names any."""
        if not self.managed:
            return True
        containers = (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
        return any(
            not self.managed.isdisjoint([*(each.requests or ()), *(each.limits or ())])
            for container in containers
            if (each := container.resources) is not None
        )


def configured_extenders(
    configured: Sequence[config_types.Extender], errors: list[FieldError]
) -> list[ConfiguredExtender]:
    """In the order in which they are asked: those that may fail come last."""
    extenders = []
    for index, settings in enumerate(configured):
        path = f"extenders[{index}]"
        scheme = _scheme(settings.url_prefix)
        if scheme is None:
            detail = "must be an http or https URL with a host"
            errors.append(invalid(f"{path}.urlPrefix", settings.url_prefix, detail))
            continue
        try:
            tls = _tls(settings) if scheme == "https" else None
        except ConfigError as problem:
            errors.append(FieldError(f"{path}.tlsConfig", problem.message))
            continue
        extenders.append(ConfiguredExtender(settings, tls))
    return sorted(extenders, key=lambda extender: extender.is_ignorable)


def ignored_resources(configured: Iterable[config_types.Extender]) -> list[str]:
    """Resources that extenders look after alone; NodeResourcesFit has to ignore them."""
    return [
        resource.name
        for settings in configured
        for resource in settings.managed_resources
        if resource.ignored_by_scheduler
    ]


def _scheme(url: str) -> str | None:
    """http or https; None where nothing can be reached."""
    if not url.isprintable() or " " in url:
        return None
    try:
        parts = urlsplit(url)
        usable = parts.hostname and parts.port != 0 and not parts.query and not parts.fragment
    except ValueError:
        return None
    return parts.scheme if usable and parts.scheme in ("http", "https") else None


def _tls(settings: config_types.Extender) -> ssl.SSLContext:
    """Without a CA nothing is verified if HTTPS is enabled, as upstream; else the system's CAs."""
    tls = settings.tls_config or config_types.ExtenderTLSConfig()
    ca = tls.ca_data or _read(tls.ca_file)
    certificate = tls.cert_data or _read(tls.cert_file)
    key = tls.key_data or _read(tls.key_file)
    if tls.insecure and ca:
        raise ConfigError("insecure disables verification, so remove either the CA or insecure")
    if bool(certificate) != bool(key):
        raise ConfigError("a client certificate needs its key, and the key its certificate")
    config = ClusterConfig(
        server=settings.url_prefix,
        ca_data=ca or None,
        insecure_skip_tls_verify=tls.insecure or (settings.enable_https and not ca),
    )
    return build_context(config, client_cert=certificate or None, client_key=key or None)


def _read(file: str) -> bytes:
    if not file:
        return b""
    try:
        return Path(file).read_bytes()
    except OSError as problem:
        raise ConfigError(f"{file} cannot be read: {problem.strerror}") from problem
