"""Catalog: what was put in is found, and every change can be noticed."""

from __future__ import annotations

from stowplan.api.objects import ObjectMeta
from stowplan.api.resources import PERSISTENT_VOLUMES, SERVICES
from stowplan.api.storage_objects import PersistentVolume
from stowplan.api.workload_objects import Service
from stowplan.cluster.catalog import Catalog


def service(name: str, namespace: str = "default", version: str = "1") -> Service:
    return Service(metadata=ObjectMeta(name=name, namespace=namespace, resource_version=version))


def test_objects_are_found_by_name_and_namespace() -> None:
    catalog = Catalog()
    catalog[SERVICES].set(service("a"))
    catalog[SERVICES].set(service("a", "other"))
    catalog[PERSISTENT_VOLUMES].set(PersistentVolume(metadata=ObjectMeta(name="a")))
    assert catalog[SERVICES].get("a", "other") == service("a", "other")
    assert catalog[SERVICES].get("a") is None
    assert list(catalog[SERVICES].within("default")) == ["a"]
    assert list(catalog[SERVICES]) == [service("a"), service("a", "other")]
    assert [len(catalog[SERVICES]), len(catalog[PERSISTENT_VOLUMES])] == [2, 1]


def test_every_change_moves_the_version_and_nothing_else_does() -> None:
    shelf = Catalog()[SERVICES]
    versions = [shelf.version]

    assert shelf.set(service("a")) is None
    versions.append(shelf.version)
    assert shelf.set(service("a", version="2")) == service("a")
    versions.append(shelf.version)
    assert shelf.remove("a", "default") == service("a", version="2")
    versions.append(shelf.version)
    assert versions == sorted(set(versions))

    assert shelf.remove("a", "default") is None
    assert shelf.get("a", "default") is None
    assert not shelf.within("default")
    assert shelf.version == versions[-1]


def test_listeners_hear_of_every_change_once_it_is_made() -> None:
    shelf = Catalog()[SERVICES]
    heard: list[tuple[Service | None, Service | None, int]] = []
    shelf.listeners.append(lambda old, new: heard.append((old, new, len(shelf))))
    shelf.set(service("a"))
    shelf.set(service("a", version="2"))
    shelf.remove("a", "default")
    shelf.remove("a", "default")
    assert heard == [
        (None, service("a"), 1),
        (service("a"), service("a", version="2"), 1),
        (service("a", version="2"), None, 0),
    ]


def test_what_plugins_share_is_made_once_for_each_catalog() -> None:
    class Assumptions:
        def __init__(self, catalog: Catalog) -> None:
            self.catalog = catalog

        def reset(self, like: Assumptions) -> None:
            raise AssertionError("nothing is copied here")

    catalog, other = Catalog(), Catalog()
    assert catalog.shared(Assumptions) is catalog.shared(Assumptions)
    assert catalog.shared(Assumptions).catalog is catalog
    assert catalog.shared(Assumptions) is not other.shared(Assumptions)
