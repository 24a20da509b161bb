"""The informers of a scheduler: which objects it reads, with which permissions and handlers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer, InformerOptions
from stowplan.api.resources import NODES, PODS, Resource
from stowplan.clock import Clock
from stowplan.scheduler.access import is_cluster_wide
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.whole_objects import WholeObjects

Handler: TypeAlias = Callable[..., None]

#: Finished pods free their node at once, so they are not even watched.
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True, slots=True)
class Means:
    """How the scheduler reads and reports with its permissions; the default needs our own role."""

    #: A field selector that limits the pods, for schedulers that ignore the pods on nodes.
    pods: str = ""
    #: Interval between lists if watching is forbidden; None: keep retrying the watch.
    poll_s: float | None = None
    #: Events may be created, but not patched when they repeat.
    creates_events_only: bool = False
    #: False: write no events.
    writes_events: bool = True
    #: Called with each missing permission that has a fallback: "watch nodes", "create events".
    on_refused: Callable[[str], None] = lambda right: None


def make_informers(
    handlers: EventHandlers,
    client: ApiClient,
    clock: Clock,
    means: Means,
    *,
    kinds: Iterable[Resource[Any]],
    namespace: str,
    whole: WholeObjects | None,
    change: Callable[[Handler], Handler],
) -> dict[str, Informer[Any]]:
    """Informers of pods, nodes and `kinds`, by plural name.

    `change` wraps handlers that change the cache. `whole` sees the raw pods and nodes.
    """
    pods = Informer(
        client,
        PODS,
        namespace=namespace,
        field_selector=f"{_UNFINISHED},{means.pods}" if means.pods else _UNFINISHED,
        on_add=change(handlers.add_pod),
        on_update=change(handlers.update_pod),
        on_delete=change(handlers.delete_pod),
        on_raw=whole.saw_pod if whole is not None else None,
        options=watching(PODS, means),
        clock=clock,
    )
    nodes = Informer(
        client,
        NODES,
        on_add=change(handlers.add_node),
        on_update=change(handlers.update_node),
        on_delete=change(handlers.delete_node),
        on_raw=whole.saw_node if whole is not None else None,
        options=watching(NODES, means),
        clock=clock,
    )
    informers: dict[str, Informer[Any]] = {"pods": pods, "nodes": nodes}
    for resource in kinds:
        set_object = change(partial(handlers.set_object, resource))
        informers[resource.plural] = Informer(
            client,
            resource,
            namespace="" if is_cluster_wide(resource) else namespace,
            on_add=set_object,
            on_update=_ignoring_old(set_object),
            on_delete=change(partial(handlers.delete_object, resource)),
            options=watching(resource, means),
            clock=clock,
        )
    return informers


def watching(resource: Resource[Any], means: Means) -> InformerOptions:
    """The options of an informer that may lack the permission to watch."""
    right = f"watch {resource.plural}"
    return InformerOptions(poll_s=means.poll_s, on_watch_refused=lambda _: means.on_refused(right))


def unchanged(handler: Handler) -> Handler:
    """The `change` of schedulers whose cache may change at any time."""
    return handler


def _ignoring_old(change: Callable[[Any], None]) -> Callable[[Any, Any], None]:
    return lambda _, new: change(new)
