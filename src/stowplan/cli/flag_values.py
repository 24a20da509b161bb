"""What the flags of kube-scheduler do: from parsed values to configuration, endpoints and logs.

Precedence with `--config` is upstream's: deprecated flags that have a field in the configuration
yield to the file, leader election flags override it, all others apply either way. A flag that was
given and has no effect causes one warning, which says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from stowplan.cli.flags_table import FLAGS, SECTIONS
from stowplan.cli.pflag import Flag
from stowplan.config.feature_gates import FeatureGates, parse_gates
from stowplan.config.kubernetes_version import KUBERNETES_VERSION, ShownVersions
from stowplan.config.types import ClientConnection, KubeSchedulerConfiguration, LeaderElection
from stowplan.config.validation import RETRY_JITTER
from stowplan.errors import ConfigError
from stowplan.logs import LogFormat, configure, get_logger, kv
from stowplan.redaction import redact_url

if TYPE_CHECKING:
    from stowplan.scheduler.metrics_filter import MetricsFilter
    from stowplan.server.serving_options import ServingOptions

log = get_logger(__name__)

#: The flags that were given, by name, with their parsed values.
FlagValues: TypeAlias = Mapping[str, Any]

_VERSION: Final = re.compile(r"(?:kube=)?(1\.3[3-6])")
_MINOR: Final = KUBERNETES_VERSION[1:5]
_METRIC_LABEL: Final = re.compile(r"\s*([a-zA-Z_:][\w:]*)\s*,\s*([a-zA-Z_]\w*)\s*")
#: client-go's limits where qps or burst is 0.
_CLIENT_QPS: Final = 5.0
_CLIENT_BURST: Final = 10


def configured(
    config: KubeSchedulerConfiguration, flags: FlagValues, *, has_file: bool
) -> KubeSchedulerConfiguration:
    """The configuration with the flags that belong to it."""
    election = {field: flags[name] for name, field in _ELECTION_FIELDS.items() if name in flags}
    changed_election = msgspec.structs.replace(config.leader_election, **election)
    if election and changed_election.leader_elect:
        _check_durations(changed_election)
    changed: dict[str, Any] = {"leader_election": changed_election}
    if not has_file:
        connection = {
            field: flags[name] for name, field in _CONNECTION_FIELDS.items() if name in flags
        }
        changed["client_connection"] = msgspec.structs.replace(
            config.client_connection, **connection
        )
        changed |= {field: flags[name] for name, field in _OWN_FIELDS.items() if name in flags}
    return msgspec.structs.replace(config, **changed)


def _check_durations(election: LeaderElection) -> None:
    """ConfigError names the flags of durations that contradict each other."""
    lease, deadline, retry = election.lease_duration, election.renew_deadline, election.retry_period
    if 0 < lease <= deadline:
        raise ConfigError(
            f"{lease} must be greater than --leader-elect-renew-deadline, which is {deadline}",
            where="--leader-elect-lease-duration",
        )
    if 0 < deadline <= RETRY_JITTER * retry:
        raise ConfigError(
            f"{deadline} must be greater than {RETRY_JITTER} times --leader-elect-retry-period, "
            f"which is {retry}",
            where="--leader-elect-renew-deadline",
        )


def election_flags(election: LeaderElection) -> dict[str, Any]:
    """The flags that would give this leader election."""
    return {name: getattr(election, field) for name, field in _ELECTION_FIELDS.items()}


_ELECTION_FIELDS: Final = {
    flag.name: flag.name.removeprefix("leader-elect-").replace("-", "_")
    for flag in SECTIONS["Leader election"]
}
_CONNECTION_FIELDS: Final = {
    "kubeconfig": "kubeconfig",
    "kube-api-content-type": "content_type",
    "kube-api-qps": "qps",
    "kube-api-burst": "burst",
}
_OWN_FIELDS: Final = {
    "profiling": "enable_profiling",
    "contention-profiling": "enable_contention_profiling",
}
#: Flags that yield to the configuration file.
YIELDING: Final = frozenset({*_CONNECTION_FIELDS, *_OWN_FIELDS})


def request_limits(
    flags: FlagValues, connection: ClientConnection, *, has_file: bool
) -> tuple[float, int]:
    """Requests per second and burst, (0, 0) for no limit; `connection` is that of `configured`.

    Without a file, a flag that is given counts even at its default; see also `ClientConnection`.
    """
    is_given = not has_file and {"kube-api-qps", "kube-api-burst"} & flags.keys()
    default = type(connection)()
    if not is_given and (connection.qps, connection.burst) == (default.qps, default.burst):
        return 0.0, 0
    qps = connection.qps or _CLIENT_QPS
    return (qps, connection.burst or _CLIENT_BURST) if qps > 0 else (0.0, 0)


def serving_options(
    flags: FlagValues,
    config: KubeSchedulerConfiguration,
    *,
    bind_address: str,
    secure_port: int,
    plain_port: int,
) -> ServingOptions:
    """The options of the endpoints; the arguments are the caller's defaults."""
    from stowplan.server.serving_options import RequestHeaders, ServingOptions, SniCertificate

    def path(name: str) -> Path | None:
        return Path(flags[name]) if flags.get(name) else None

    given = {
        field: flags[name]
        for name, field in _SERVING_FIELDS.items()
        if flags.get(name) is not None and flags[name] != ""
    }
    headers = {
        field: tuple(header.lower() for header in flags[name])
        for name, field in _HEADER_FIELDS.items()
        if name in flags
    }
    port = flags.get("secure-port", secure_port)
    if not 0 <= port <= 65535:
        raise ConfigError(f"{port} must be between 0 and 65535, inclusive", where="--secure-port")
    return ServingOptions(
        bind_address=flags.get("bind-address", bind_address),
        secure_port=port,
        plain_port=plain_port,
        tls_cert_file=path("tls-cert-file"),
        tls_private_key_file=path("tls-private-key-file"),
        cert_dir=path("cert-dir"),
        tls_sni_cert_keys=tuple(
            SniCertificate(Path(certificate), Path(key), names)
            for certificate, key, names in flags.get("tls-sni-cert-key", ())
        ),
        client_ca_file=path("client-ca-file"),
        requestheader=RequestHeaders(
            client_ca_file=path("requestheader-client-ca-file"),
            allowed_names=flags.get("requestheader-allowed-names", ()),
            **headers,
        ),
        profiling=config.enable_profiling,
        flags=shown_flags(flags),
        **given,
    )


_SERVING_FIELDS: Final = {
    "permit-port-sharing": "permit_port_sharing",
    "tls-min-version": "tls_min_version",
    "tls-cipher-suites": "tls_cipher_suites",
    "authentication-kubeconfig": "authentication_kubeconfig",
    "authentication-skip-lookup": "authentication_skip_lookup",
    "authentication-tolerate-lookup-failure": "authentication_tolerate_lookup_failure",
    "authentication-token-webhook-cache-ttl": "authentication_token_cache_ttl_s",
    "authorization-kubeconfig": "authorization_kubeconfig",
    "authorization-always-allow-paths": "authorization_always_allow_paths",
    "authorization-webhook-cache-authorized-ttl": "authorization_authorized_cache_ttl_s",
    "authorization-webhook-cache-unauthorized-ttl": "authorization_unauthorized_cache_ttl_s",
}
_HEADER_FIELDS: Final = {
    "requestheader-username-headers": "username_headers",
    "requestheader-uid-headers": "uid_headers",
    "requestheader-group-headers": "group_headers",
    "requestheader-extra-headers-prefix": "extra_headers_prefix",
}


def shown_flags(flags: FlagValues) -> dict[str, str]:
    """All flags with their values as kube-scheduler's /flagz shows them."""
    return {
        name: _text(flag, flags[name])
        if name in flags
        else flag.default.strip('"') or _ZEROS.get(flag.kind, "")
        for name, flag in FLAGS.items()
    }


#: Values of flags that were not given and have no default.
_ZEROS: Final = {
    "bool": "false",
    "version": "false",
    "int": "0",
    "Level": "0",
    "quantity": "0",
    "strings": "[]",
}


def _text(flag: Flag, value: Any) -> str:
    if flag.name == "master":
        return redact_url(value)
    if flag.kind == "bool":
        return str(value).lower()
    if flag.kind == "float32":
        return f"{value:g}"
    if flag.kind == "pattern=N,...":
        return ",".join(f"{pattern}={level}" for pattern, level in value)
    if flag.kind == "colonSeparatedMultimapStringString":
        return ",".join(setting if ":" in setting else f":{setting}" for setting in value)
    if flag.kind == "namedCertKey":
        pairs = (f"{cert},{key}" + f":{','.join(n)}" * bool(n) for cert, key, n in value)
        return f"[{';'.join(pairs)}]"
    if isinstance(value, dict):
        value = tuple(f"{key}={text}" for key, text in value.items())
    if not isinstance(value, tuple):
        return str(value)
    quoted = (f'"{item}"' if "," in str(item) else str(item) for item in value)
    return f"[{','.join(quoted)}]"


def metrics_filter(flags: FlagValues) -> MetricsFilter | None:
    """What --disabled-metrics and --allow-metric-labels leave of /metrics; None for all."""
    version = flags.get("show-hidden-metrics-for-version")
    if version not in (None, "", "1.35"):
        detail = f'"{version}" must be omitted or have the value 1.35, the previous minor version'
        raise ConfigError(detail, where="--show-hidden-metrics-for-version")
    file = flags.get("allow-metric-labels-manifest", "")
    allowed = _read_manifest(file) if file else {}
    allowed |= flags.get("allow-metric-labels", {})
    disabled = frozenset(flags.get("disabled-metrics", ()))
    if not allowed and not disabled:
        return None
    from stowplan.scheduler.metrics_filter import MetricsFilter

    labels: dict[str, dict[str, frozenset[str]]] = {}
    for key, values in allowed.items():
        match = _METRIC_LABEL.fullmatch(key)
        if match is None:
            detail = f'"{key}" is not METRIC,LABEL'
            raise ConfigError(detail, where=file or "--allow-metric-labels")
        labels.setdefault(match[1], {})[match[2]] = frozenset(values.split(","))
    return MetricsFilter(disabled, labels)


def _read_manifest(file: str) -> dict[str, str]:
    from stowplan.loader.files import read_file
    from stowplan.loader.malformed import Malformed
    from stowplan.loader.yaml_text import load_yaml

    try:
        tree = load_yaml(read_file(file))
    except Malformed as problem:
        raise ConfigError(f"is not YAML: {problem}", where=file) from None
    mapping = tree.get("allowListMapping") if isinstance(tree, dict) else None
    if not isinstance(mapping, dict):
        raise ConfigError("has no mapping allowListMapping", where=file)
    return {str(key): str(value) for key, value in mapping.items()}


def configure_logging(
    flags: FlagValues, gates: FeatureGates, *, verbosity: int, log_format: str
) -> None:
    """Set up logging; ConfigError for combinations that kube-scheduler refuses."""
    if log_format not in ("text", "json"):
        detail = f'Invalid value: "{log_format}": Unsupported log format'
        raise ConfigError(detail, where="--logging-format")
    if log_format == "json" and not gates.is_enabled("LoggingBetaOptions"):
        detail = "Log format json is disabled, see LoggingBetaOptions feature"
        raise ConfigError(detail, where="--logging-format")
    for name in _ALPHA_LOGGING:
        if flags.get(name) not in (None, False, "0") and not gates.is_enabled(
            "LoggingAlphaOptions"
        ):
            raise ConfigError("Feature LoggingAlphaOptions is disabled", where=f"--{name}")
    vmodule = flags.get("vmodule", ())
    if vmodule and log_format != "text":
        raise ConfigError("Only supported for text log format", where="--vmodule")
    chosen: LogFormat = "json" if log_format == "json" else "text"
    split = bool(flags.get(f"log-{log_format}-split-stream"))
    configure(verbosity, chosen, vmodule=vmodule, split=split)


_ALPHA_LOGGING: Final = tuple(
    f"log-{log_format}-{option}"
    for log_format in ("text", "json")
    for option in ("split-stream", "info-buffer-size")
)


def feature_gates(flags: FlagValues) -> FeatureGates:
    return parse_gates(flags.get("feature-gates", ()))


def shown_versions(flags: FlagValues) -> ShownVersions:
    """The versions to report; ConfigError for those that kube-scheduler refuses."""
    emulated = _version_of(flags, "emulated-version", highest=_MINOR)
    default = f"1.{max(33, int((emulated or _MINOR)[2:]) - 1)}"
    lowest = _version_of(flags, "min-compatibility-version", highest=emulated or _MINOR)
    # DIVERGES: the emulated version is checked, but not shown, because nothing emulates it.
    text = str(flags.get("version", ""))
    binary = text if text.startswith("v") else KUBERNETES_VERSION
    return ShownVersions(binary.removeprefix("v"), lowest or default)


def _version_of(flags: FlagValues, name: str, *, highest: str) -> str:
    """The last of the versions given; empty for none."""
    found = ""
    for text in flags.get(name, ()):
        match = _VERSION.fullmatch(text)
        if match is None or match[1] > highest:
            detail = f'"{text}" is not a version from kube=1.33 to kube={highest}'
            raise ConfigError(detail, where=f"--{name}")
        found = match[1]
    return found


def warn(flags: FlagValues, gates: FeatureGates, *, has_file: bool) -> None:
    """Log what was given and has no effect, each with its reason."""
    for name, reason in _without_effect(flags, has_file=has_file):
        log.warning("A flag has no effect", extra=kv(flag=f"--{name}", reason=reason))
    for reason in gates.without_effect():
        log.warning("A feature gate has no effect", extra=kv(reason=reason))


def _without_effect(flags: FlagValues, *, has_file: bool) -> Iterator[tuple[str, str]]:
    for name, value in flags.items():
        if has_file and name in YIELDING:
            yield name, "the configuration file decides"
        elif FLAGS[name].without_effect and _asks_for_something(FLAGS[name], value):
            yield name, FLAGS[name].without_effect


def _asks_for_something(flag: Flag, value: Any) -> bool:
    if flag.name == "emulated-version":
        return any(not text.endswith(_MINOR) for text in value)
    return value not in (False, 0, "0", "", "application/json", ())
