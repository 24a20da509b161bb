"""Which class answers for an extended resource (upstream: extendedresourcecache_test.go)."""

from __future__ import annotations

from stowplan.api.device_objects import DeviceClass, DeviceClassSpec
from stowplan.api.objects import ObjectMeta
from stowplan.api.resources import DEVICE_CLASSES
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.extended_resources import CLASS_PREFIX, DeviceClassByResource, can_be_devices

GPU = "example.com/gpu"


def _class(name: str, resource: str | None = None, created: str | None = None) -> DeviceClass:
    return DeviceClass(
        metadata=ObjectMeta(name=name, creation_timestamp=created),
        spec=DeviceClassSpec(extended_resource_name=resource),
    )


def _answers(catalog: Catalog) -> dict[str, str]:
    index = catalog.shared(DeviceClassByResource)
    names = [GPU, "example.com/nic", *(CLASS_PREFIX + name for name in "abc")]
    found = {name: index.get(name) for name in names}
    return {name: one.metadata.name for name, one in found.items() if one is not None}


def test_a_class_answers_for_its_own_name_and_the_one_it_states() -> None:
    catalog = Catalog()
    shelf = catalog[DEVICE_CLASSES]
    catalog.shared(DeviceClassByResource)
    shelf.set(_class("a", GPU))
    shelf.set(_class("b"))
    assert _answers(catalog) == {GPU: "a", CLASS_PREFIX + "a": "a", CLASS_PREFIX + "b": "b"}
    shelf.set(_class("a", "example.com/nic"))
    assert _answers(catalog) == {
        "example.com/nic": "a",
        CLASS_PREFIX + "a": "a",
        CLASS_PREFIX + "b": "b",
    }
    shelf.remove("a")
    assert _answers(catalog) == {CLASS_PREFIX + "b": "b"}
    shelf.remove("b")
    assert len(catalog.shared(DeviceClassByResource)) == 0


def test_the_newest_class_answers_and_then_the_first_by_name() -> None:
    catalog = Catalog()
    shelf = catalog[DEVICE_CLASSES]
    for one in (
        _class("c", GPU, "2026-01-02T00:00:00Z"),
        _class("b", GPU, "2026-01-02T00:00:00Z"),
        _class("a", GPU, "2026-01-01T00:00:00Z"),
    ):
        shelf.set(one)
    assert _answers(catalog)[GPU] == "b"
    shelf.remove("b")
    assert _answers(catalog)[GPU] == "c"
    shelf.remove("c")
    assert _answers(catalog)[GPU] == "a"


def test_a_copy_of_the_catalog_and_a_rebuild_give_the_same_answers() -> None:
    catalog = Catalog()
    catalog.shared(DeviceClassByResource)
    catalog[DEVICE_CLASSES].set(_class("a", GPU))
    assert _answers(catalog.copy()) == _answers(catalog)
    before = _answers(catalog)
    catalog.rebuild()
    assert _answers(catalog) == before


def test_only_extended_names_can_be_devices() -> None:
    assert can_be_devices(GPU)
    assert can_be_devices(CLASS_PREFIX + "a")
    assert not can_be_devices("cpu")
    assert not can_be_devices("hugepages-2Mi")
    assert not can_be_devices("kubernetes.io/something")
