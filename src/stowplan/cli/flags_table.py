"""The command line of kube-scheduler 1.36.3: all of its 62 flags, in the sections of its help.

A test compares names, types, defaults and sections with the binary's `--help`. `kube-scheduler` and
`stowplan run` take their flags from here, and docs/flags.md is generated from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stowplan.cli.pflag import Flag
from stowplan.config.kubernetes_version import KUBERNETES_VERSION

_UNBUFFERED: Final = "each log line is written at once"
_ONE_VERSION: Final = f"Stowplan always behaves as {KUBERNETES_VERSION[:5]}"
_HTTP1: Final = "the endpoints speak HTTP/1.1 only"

SECTIONS: Final[Mapping[str, tuple[Flag, ...]]] = {
    "Misc": (
        Flag(
            "config",
            "string",
            "",
            "KubeSchedulerConfiguration file (kubescheduler.config.k8s.io/v1).",
        ),
        Flag(
            "master",
            "string",
            "",
            "Address of the API server. Overrides the one of --kubeconfig, and is used without "
            "credentials if there is none.",
        ),
        Flag(
            "write-config-to",
            "string",
            "",
            "Write the complete effective configuration to this file, including secrets, and exit.",
        ),
    ),
    "Secure serving": (
        Flag(
            "bind-address",
            "ip",
            "0.0.0.0",  # noqa: S104 - upstream's default, over HTTPS
            "Address of the health and metrics endpoints; 0.0.0.0 or :: for all interfaces.",
        ),
        Flag(
            "cert-dir",
            "string",
            "",
            "Directory for the generated certificate and key. Unused if both TLS files are given. "
            "Without it they stay in memory.",
        ),
        Flag("disable-http2-serving", "bool", "", "Serve no HTTP/2. Always so here."),
        Flag(
            "http2-max-streams-per-connection",
            "int",
            "",
            "Streams per HTTP/2 connection.",
            without_effect=_HTTP1,
        ),
        Flag("permit-address-sharing", "bool", "", "Listen with SO_REUSEADDR. Always so here."),
        Flag(
            "permit-port-sharing",
            "bool",
            "",
            "Listen with SO_REUSEPORT, so that several processes can share the port.",
        ),
        Flag(
            "secure-port",
            "int",
            "10259",
            "Port of the endpoints over HTTPS, with authentication and authorisation; 0 turns them "
            "off.",
        ),
        Flag(
            "tls-cert-file",
            "string",
            "",
            "Certificate of the endpoints, followed by those of its CAs. Default: a self-signed "
            "certificate.",
        ),
        Flag("tls-cipher-suites", "strings", "", "Allowed cipher suites, by Go's names."),
        Flag(
            "tls-curve-preferences",
            "int32Slice",
            "[]",
            "Allowed key exchange mechanisms, by Go's numbers.",
            without_effect="OpenSSL chooses the key exchange",
        ),
        Flag("tls-min-version", "string", "", "Lowest TLS version: VersionTLS10 to VersionTLS13."),
        Flag("tls-private-key-file", "string", "", "Private key of --tls-cert-file."),
        Flag(
            "tls-sni-cert-key",
            "namedCertKey",
            "[]",
            "CERT,KEY[:NAME,...]: a certificate for requests to these names. Can be repeated.",
        ),
    ),
    "Authentication": (
        Flag(
            "authentication-kubeconfig",
            "string",
            "",
            "Kubeconfig of the cluster that reviews tokens.",
        ),
        Flag(
            "authentication-skip-lookup",
            "bool",
            "",
            "Do not look up client CAs in the cluster.",
        ),
        Flag(
            "authentication-token-webhook-cache-ttl",
            "duration",
            "10s",
            "How long a token review is cached.",
        ),
        Flag(
            "authentication-tolerate-lookup-failure",
            "bool",
            "true",
            "Start although client CAs cannot be looked up in the cluster.",
        ),
        Flag(
            "client-ca-file",
            "string",
            "",
            "CAs of client certificates. The common name is the user, organisations are groups.",
        ),
        Flag(
            "requestheader-allowed-names",
            "strings",
            "",
            "Common names of proxies that may name users in headers. Default: any that "
            "--requestheader-client-ca-file has signed.",
        ),
        Flag(
            "requestheader-client-ca-file",
            "string",
            "",
            "CAs of proxies that may name users in headers.",
        ),
        Flag(
            "requestheader-extra-headers-prefix",
            "strings",
            "[x-remote-extra-]",
            "Prefixes of headers with further attributes of the user.",
        ),
        Flag(
            "requestheader-group-headers",
            "strings",
            "[x-remote-group]",
            "Headers with the user's groups.",
        ),
        Flag("requestheader-uid-headers", "strings", "", "Headers with the user's UID."),
        Flag(
            "requestheader-username-headers",
            "strings",
            "[x-remote-user]",
            "Headers with the user's name.",
        ),
    ),
    "Authorization": (
        Flag(
            "authorization-always-allow-paths",
            "strings",
            "[/healthz,/readyz,/livez]",
            "Paths that need no authorisation.",
        ),
        Flag(
            "authorization-kubeconfig",
            "string",
            "",
            "Kubeconfig of the cluster that reviews access.",
        ),
        Flag(
            "authorization-webhook-cache-authorized-ttl",
            "duration",
            "10s",
            "How long a granted access review is cached.",
        ),
        Flag(
            "authorization-webhook-cache-unauthorized-ttl",
            "duration",
            "10s",
            "How long a denied access review is cached.",
        ),
    ),
    "Deprecated": (
        Flag(
            "contention-profiling",
            "bool",
            "true",
            "Profile blocking. Ignored with --config.",
            without_effect="there is no profile of blocking",
        ),
        Flag(
            "kube-api-burst",
            "int32",
            "100",
            "Requests to the API server above --kube-api-qps for a moment. Ignored with --config.",
        ),
        Flag(
            "kube-api-content-type",
            "string",
            '"application/vnd.kubernetes.protobuf"',
            "Content type of requests to the API server. Ignored with --config.",
            without_effect="requests are always JSON",
        ),
        Flag(
            "kube-api-qps",
            "float32",
            "50",
            "Requests per second to the API server, for each kind of request. Without this flag "
            "there is no limit here. Ignored with --config.",
        ),
        Flag(
            "kubeconfig",
            "string",
            "",
            "Kubeconfig file. Ignored with --config.",
        ),
        Flag(
            "pod-max-in-unschedulable-pods-duration",
            "duration",
            "5m0s",
            "Retry a pod that was unschedulable for this long, whether or not anything changed.",
        ),
        Flag(
            "profiling",
            "bool",
            "true",
            "Serve /debug/pprof/profile, and /debug/flags/v, which changes the verbosity of a "
            "running scheduler. Ignored with --config.",
        ),
    ),
    "Leader election": (
        Flag(
            "leader-elect",
            "bool",
            "true",
            "Schedule only while holding a Lease, so that one of several replicas is active.",
        ),
        Flag(
            "leader-elect-lease-duration",
            "duration",
            "15s",
            "How long a Lease is valid without renewal.",
        ),
        Flag(
            "leader-elect-renew-deadline",
            "duration",
            "10s",
            "How long the leader tries to renew its Lease before it gives up.",
        ),
        Flag(
            "leader-elect-resource-lock",
            "string",
            '"leases"',
            "Kind of object used as a lock: leases.",
        ),
        Flag("leader-elect-resource-name", "string", '"kube-scheduler"', "Name of the Lease."),
        Flag(
            "leader-elect-resource-namespace",
            "string",
            '"kube-system"',
            "Namespace of the Lease.",
        ),
        Flag(
            "leader-elect-retry-period",
            "duration",
            "2s",
            "Time between attempts to acquire or renew the Lease.",
        ),
    ),
    "Feature gate": (
        Flag(
            "emulated-version",
            "strings",
            "",
            "Version to emulate, kube=1.33 to kube=1.36.",
            without_effect=_ONE_VERSION,
        ),
        Flag(
            "feature-gates",
            "colonSeparatedMultimapStringString",
            "",
            "Name=true or Name=false, separated by commas. docs/flags.md lists the names.",
        ),
        Flag(
            "min-compatibility-version",
            "strings",
            "",
            "Lowest version of other components, kube=1.33 to kube=1.36. Shown by version_info.",
        ),
    ),
    "Metrics": (
        Flag(
            "allow-metric-labels",
            "stringToString",
            "[]",
            "METRIC,LABEL=VALUE,...: values of a label that are shown. Others become "
            '"unexpected". Can be repeated.',
        ),
        Flag(
            "allow-metric-labels-manifest",
            "string",
            "",
            "YAML file with a mapping allowListMapping of what --allow-metric-labels takes. The "
            "flag overrides the file.",
        ),
        Flag("disabled-metrics", "strings", "", "Metrics to leave out, by their full names."),
        Flag(
            "show-hidden-metrics-for-version",
            "string",
            "",
            "Show metrics that this version has deprecated: 1.35.",
            without_effect="no metric is hidden",
        ),
    ),
    "Logs": (
        Flag(
            "log-flush-frequency",
            "duration",
            "5s",
            "Time between log flushes.",
            without_effect=_UNBUFFERED,
        ),
        Flag(
            "log-json-info-buffer-size",
            "quantity",
            "",
            "Buffer of the JSON log.",
            without_effect=_UNBUFFERED,
        ),
        Flag(
            "log-json-split-stream",
            "bool",
            "",
            "JSON log: errors to stderr, everything else to stdout. Needs the feature gate "
            "LoggingAlphaOptions.",
        ),
        Flag(
            "log-text-info-buffer-size",
            "quantity",
            "",
            "Buffer of the text log.",
            without_effect=_UNBUFFERED,
        ),
        Flag(
            "log-text-split-stream",
            "bool",
            "",
            "Text log: errors to stderr, everything else to stdout. Needs the feature gate "
            "LoggingAlphaOptions.",
        ),
        Flag("logging-format", "string", '"text"', "Format of log lines: text or json."),
        Flag("v", "Level", "", "Log verbosity, 0 to 10.", short="v"),
        Flag(
            "vmodule",
            "pattern=N,...",
            "",
            "Verbosity by file, such as queue=5,*affinity*=4. Text log only.",
        ),
    ),
    "Global": (
        Flag("help", "bool", "", "Show this message and exit.", short="h"),
        Flag(
            "version",
            "version",
            "",
            "--version and --version=raw print the version and exit; --version=v1.36.3... sets "
            "the version that is reported.",
        ),
    ),
}

FLAGS: Final[Mapping[str, Flag]] = {
    flag.name: flag for section in SECTIONS.values() for flag in section
}
