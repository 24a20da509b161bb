"""The objects to explain with: of a live cluster, read-only, or of a file that kubectl wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from stowplan.api.client import ApiClient
from stowplan.api.objects import Pod
from stowplan.api.resources import (
    DEVICE_TAINT_RULES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Resource,
)
from stowplan.cluster.catalog import Catalog
from stowplan.config.fields import closest, did_you_mean
from stowplan.errors import ApiError, ConfigError, Forbidden, NotFound
from stowplan.explain.commands import owner_of
from stowplan.judge.given_cluster import GivenCluster
from stowplan.judge.objects import Key, ReadOptions, Thing, read_objects, thing_of
from stowplan.judge.refusal import QuestionRefused
from stowplan.loader.malformed import LARGE, Malformed
from stowplan.loader.yaml_text import load_all

_HOW: Final = ReadOptions(defaults=True)
_PAGE: Final = 5000
#: Read beside claims of devices, without a warning: a user may lack the right, a server the kind.
_BESIDE_CLAIMS: Final = (RESOURCE_CLAIM_TEMPLATES, DEVICE_TAINT_RULES)
#: Owners of pods, as kubectl names them.
OWNERS: Final = frozenset(
    [
        "deployment",
        "deployments",
        "deploy",
        "replicaset",
        "replicasets",
        "rs",
        "statefulset",
        "statefulsets",
        "sts",
        "daemonset",
        "daemonsets",
        "ds",
        "job",
        "jobs",
        "replicationcontroller",
        "replicationcontrollers",
        "rc",
    ]
)
_ALLOWED_FIX: Final = (
    "Fix: ask the running scheduler (--server URL), or explain an export of the whole cluster"
    " (-f FILE; docs/explain.md has the command)"
)
#: Pods that a hint names.
_SHOWN: Final = 3


async def read_live(
    client: ApiClient, kinds: Iterable[Resource[Any]], warn: Callable[[str], None]
) -> GivenCluster:
    """Nodes, pods and other kinds, listed at once; kinds that may not be read are left out."""
    wanted: list[Resource[Any]] = [NODES, PODS, *kinds]
    if RESOURCE_CLAIMS in wanted:
        wanted += _BESIDE_CLAIMS
    answers = await asyncio.gather(*(_listed(client, kind) for kind in wanted))
    cluster = GivenCluster()
    refused: dict[str, str] = {}
    for kind, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, ApiError):
            if kind not in _BESIDE_CLAIMS:
                refused[kind.plural] = str(answer)
            cluster.unread.add(kind.plural)
            continue
        for thing in answer:
            cluster.put(thing)
    if refused:
        warn(f"decided without {', '.join(refused)}: {next(iter(refused.values()))}")
    return cluster


async def _listed(client: ApiClient, kind: Resource[Any]) -> list[Thing] | ApiError:
    """The problem, where the kind may not be listed or does not exist."""
    try:
        found = await client.list_all(kind, page_size=_PAGE)
    except (Forbidden, NotFound) as problem:
        if kind not in (NODES, PODS):
            return problem
        if isinstance(problem, NotFound):
            raise
        raise Forbidden(f"{problem}. {_ALLOWED_FIX}", status=problem.status) from None
    return [thing_of(kind, item) for item in found.items]


def read_file(path: str, text: bytes) -> GivenCluster:
    """The objects of YAML or JSON documents, lists included, as `kubectl get -o yaml` prints."""
    try:
        documents = load_all(text, LARGE)
        raw = [msgspec.Raw(msgspec.json.encode(each)) for each in documents]
    except Malformed as problem:
        raise ConfigError(f"is neither YAML nor JSON: {problem}", where=path) from None
    if not raw:
        raise ConfigError("holds no objects", where=path)
    cluster = GivenCluster()
    try:
        for _, thing in read_objects(raw, "objects", _HOW):
            cluster.put(thing)
    except QuestionRefused as problem:
        fix = "Fix: give it what `kubectl get nodes,pods,... -A -o yaml` prints"
        raise ConfigError(f"{problem}. {fix}", where=path) from None
    # The file may lack kinds that the cluster has.
    kinds = {thing.kind for thing in cluster.things.values()}
    for kind in (
        NODES,
        PERSISTENT_VOLUME_CLAIMS,
        PERSISTENT_VOLUMES,
        RESOURCE_CLAIM_TEMPLATES,
    ):
        if kind.kind not in kinds:
            cluster.unread.add(kind.plural)
    return cluster


def find_pod(cluster: GivenCluster, namespace: str, name: str, default: str = "") -> Thing:
    """The pod of that name; NotFound with what else the namespace holds.

    `deployment/web` is no pod, but reads like one of the namespace `deployment`: unless there is
    such a namespace, `default` is the one that is meant.
    """
    found = cluster.things.get(pod_key(namespace, name))
    if found is not None:
        return found
    if namespace in OWNERS and default and namespace not in _known_namespaces(cluster):
        namespace = default
    check_namespace(cluster, namespace)
    pods = [thing for thing in cluster.things.values() if thing.resource is PODS]
    elsewhere = [thing.namespace for thing in pods if thing.name == name]
    here = [thing for thing in pods if thing.namespace == namespace]
    if elsewhere:
        hint = f'; there is one in the namespace "{elsewhere[0]}"'
    else:
        hint = _begun(name, here) or did_you_mean(name, {thing.name for thing in here})
        hint = hint or _misspelt(name, here, cluster.cache.catalog)
    raise NotFound(f'pod "{namespace}/{name}" not found{hint}')


def _begun(name: str, pods: Sequence[Thing]) -> str:
    """The pods that an owner of that name has made, by their names."""
    names = sorted(thing.name for thing in pods if thing.name.startswith(f"{name}-"))
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"; did you mean {' or '.join(names[:_SHOWN])}{more}?"


def _misspelt(name: str, pods: Sequence[Thing], catalog: Catalog) -> str:
    """The pods of an owner whose name comes close, or that has the same letters."""
    owners = {owner.name for thing in pods if (owner := owner_of(thing.struct, catalog))}
    known = owners | {thing.name for thing in pods}
    meant = closest(name, owners)
    swapped = [each for each in sorted(known) if sorted(each) == sorted(name)]
    meant = meant or next(iter(swapped), "")
    if not meant:
        return ""
    return _begun(meant, pods) or f'; did you mean "{meant}"?'


def _known_namespaces(cluster: GivenCluster) -> set[str]:
    known = {thing.namespace for thing in cluster.things.values() if thing.namespace}
    return known | {
        thing.name for thing in cluster.things.values() if thing.kind == NAMESPACES.kind
    }


def check_namespace(cluster: GivenCluster, namespace: str) -> None:
    """Raise NotFound if nothing is known of a namespace."""
    known = _known_namespaces(cluster)
    if namespace not in known:
        raise NotFound(f'namespace "{namespace}" not found{did_you_mean(namespace, known)}')


def pod_key(namespace: str, name: str) -> Key:
    return (PODS.kind, namespace, name)


def pending_pods(cluster: GivenCluster) -> Iterator[Thing]:
    """Pods that no scheduler has placed yet."""
    for thing in cluster.things.values():
        if thing.resource is PODS:
            pod: Pod = thing.struct
            if not (pod.spec.node_name or pod.is_finished or pod.is_terminating):
                yield thing
