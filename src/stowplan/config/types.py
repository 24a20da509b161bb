"""KubeSchedulerConfiguration `kubescheduler.config.k8s.io/v1`, as typed structs.

A struct's field defaults are the defaults of the API; those that depend on another field or that
Go replaces for a zero value are in `defaults.py`. Plugin arguments stay plain dicts here, as the
user wrote them: `plugin_args.py` reads those of kube-scheduler's plugins, any other plugin types
its own. The structs hold what the user wrote; `merge.py` mixes it with the default
plugins.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec

from stowplan.config.durations import Duration

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
#: How one of several best nodes is chosen.
TIE_BREAKS: Final = ("heap", "random")
#: What arguments may carry besides their fields.
TYPE_HEADER: Final = ("apiVersion", "kind")

Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

# Extension points in the order in which a pod meets them, named as configuration keys.
POINTS: Final = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
)


class Section(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True
):
    """Base of every part of the configuration: camelCase keys, unknown keys refused."""


class PluginRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A plugin by name. The weight counts for scoring only; 0 means not said, which scores as 1."""

    name: str = ""
    weight: Int32 = 0


class PluginSet(Section, frozen=True, omit_defaults=True):
    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()


class Plugins(Section, frozen=True, omit_defaults=True):
    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()

    def at(self, point: str) -> PluginSet:
        """The set under a configuration key such as "preFilter" or "multiPoint"."""
        found: PluginSet = getattr(self, _FIELD_OF_KEY[point])
        return found


_FIELD_OF_KEY: Final = {field.encode_name: field.name for field in msgspec.structs.fields(Plugins)}


class PluginConfig(Section, frozen=True):
    name: str = ""
    args: dict[str, Any] = msgspec.field(default_factory=dict)


class Profile(Section, frozen=True, omit_defaults=True):
    scheduler_name: str = ""
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()
    # DIVERGES: tieBreak and tieBreakSeed are ours alone, and kube-scheduler refuses a file that has
    # them. Its ties always go to the first in the order of its heap, which our default repeats.
    tie_break: str = "heap"
    tie_break_seed: Int64 | None = None

    def plugin_args(self, name: str) -> dict[str, Any]:
        """What the user wrote for a plugin, without the type header that args may carry."""
        for entry in self.plugin_config:
            if entry.name == name:
                return {key: value for key, value in entry.args.items() if key not in TYPE_HEADER}
        return {}


class LeaderElection(Section, frozen=True):
    leader_elect: bool = True
    lease_duration: Duration = Duration(15)
    renew_deadline: Duration = Duration(10)
    retry_period: Duration = Duration(2)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(Section, frozen=True):
    """Content types are accepted and not used: requests are always JSON.

    DIVERGES: upstream's default `qps` and `burst` together mean no limit, because they would hide
    what the server could do: its own fairness sets the pace, and a 429 with its Retry-After is
    respected. Other values limit the requests of each lane. A file that spells out the defaults, as
    written ones do, means the same as one without them.
    """

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: Int32 = 100


class ExtenderManagedResource(Section, frozen=True):
    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(Section, frozen=True, omit_defaults=True):
    # DIVERGES: data must be base64 text. Upstream's decoder also takes a list of numbers.
    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class Extender(Section, frozen=True, omit_defaults=True):
    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = Duration(5)
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class KubeSchedulerConfiguration(Section, frozen=True):
    api_version: str = API_VERSION
    kind: str = KIND
    parallelism: Int32 = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    # DIVERGES: upstream's default is 0, adaptive sampling. Columns make sampling needless, so all
    # nodes are scored unless a file says otherwise; an explicit 0 still means adaptive.
    percentage_of_nodes_to_score: Int32 = 100
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[Profile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False
