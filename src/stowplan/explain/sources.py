"""The objects to explain with: of a live cluster, read-only, or of a file that kubectl wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from stowplan.api.client import ApiClient
from stowplan.api.objects import Pod
from stowplan.api.resources import (
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    Resource,
)
from stowplan.config.fields import did_you_mean
from stowplan.errors import ApiError, ConfigError, Forbidden, NotFound
from stowplan.judge.given_cluster import GivenCluster
from stowplan.judge.objects import Key, ReadOptions, Thing, read_objects, thing_of
from stowplan.judge.refusal import QuestionRefused
from stowplan.loader.malformed import LARGE, Malformed
from stowplan.loader.yaml_text import load_all

_HOW: Final = ReadOptions(defaults=True)
_PAGE: Final = 5000


async def read_live(
    client: ApiClient, kinds: Iterable[Resource[Any]], warn: Callable[[str], None]
) -> GivenCluster:
    """Nodes, pods and other kinds, listed at once; kinds that may not be read are left out."""
    wanted: list[Resource[Any]] = [NODES, PODS, *kinds]
    answers = await asyncio.gather(*(_listed(client, kind) for kind in wanted))
    cluster = GivenCluster()
    refused: dict[str, str] = {}
    for kind, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, ApiError):
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
        if kind in (NODES, PODS):
            raise
        return problem
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
    for kind in (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES):
        if kind.kind not in kinds:
            cluster.unread.add(kind.plural)
    return cluster


def find_pod(cluster: GivenCluster, namespace: str, name: str) -> Thing:
    """The pod of that name; NotFound with what else the namespace holds."""
    found = cluster.things.get(pod_key(namespace, name))
    if found is not None:
        return found
    check_namespace(cluster, namespace)
    pods = [thing for thing in cluster.things.values() if thing.resource is PODS]
    elsewhere = [thing.namespace for thing in pods if thing.name == name]
    hint = did_you_mean(name, {thing.name for thing in pods if thing.namespace == namespace})
    if elsewhere:
        hint = f'; there is one in the namespace "{elsewhere[0]}"'
    raise NotFound(f'pod "{namespace}/{name}" not found{hint}')


def check_namespace(cluster: GivenCluster, namespace: str) -> None:
    """Raise NotFound if nothing is known of a namespace."""
    known = {thing.namespace for thing in cluster.things.values() if thing.namespace}
    known |= {thing.name for thing in cluster.things.values() if thing.kind == NAMESPACES.kind}
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
