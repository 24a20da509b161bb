"""Match claims with volumes, and index each by the other to find what a change affects.

Asked by `VolumeController`, which tells the index of every version that is stored. The rules are
those of kube-controller-manager's binder: a promised volume (its claimRef names the claim) before
a free one, but volumes with fewer access modes before both; then the smallest. Among equals it is
the first by name here and a matter of chance upstream.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from stowplan.api.objects import LabelSelector
from stowplan.api.quantity import nanos
from stowplan.api.selectors import CompiledSelector, compile_label_selector
from stowplan.apiserver.history import Json

#: Namespace and name.
Key: TypeAlias = tuple[str, str]

G = TypeVar("G", bound=Hashable)
M = TypeVar("M", bound=Hashable)

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_CLASS_OF_OLD = "volume.beta.kubernetes.io/storage-class"


def annotations_of(obj: Json) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def annotated(obj: Json, marks: Mapping[str, str | None]) -> Json:
    """The object with annotations set or, where None, taken off."""
    if not marks:
        return obj
    annotations = {k: v for k, v in {**annotations_of(obj), **marks}.items() if v is not None}
    metadata = {k: v for k, v in obj["metadata"].items() if k != "annotations"}
    if annotations:
        metadata["annotations"] = annotations
    return {**obj, "metadata": metadata}


def class_of(obj: Json) -> str:
    """Of a claim or of a volume; empty: it has none."""
    named: str = annotations_of(obj).get(_CLASS_OF_OLD) or obj["spec"].get("storageClassName", "")
    return named


def has_class(claim: Json) -> bool:
    """Whether the claim says anything of a class, be it that it wants none."""
    return _CLASS_OF_OLD in annotations_of(claim) or "storageClassName" in claim["spec"]


def is_delayed(storage_class: Json | None) -> bool:
    """Whether binding in a class is the scheduler's business. In one that is unknown it is not."""
    mode = (storage_class or {}).get("volumeBindingMode")
    return bool(mode == "WaitForFirstConsumer")


def is_promised_to(volume: Json, claim: Json) -> bool:
    """Whether the volume's claimRef means this claim, by name and, if it says so, by UID."""
    ref, metadata = volume["spec"].get("claimRef"), claim["metadata"]
    return (
        ref is not None
        and ref.get("name") == metadata["name"]
        and ref.get("namespace", "") == metadata["namespace"]
        and ref.get("uid", "") in ("", metadata["uid"])
    )


def have_same_mode(volume: Json, claim: Json) -> bool:
    """Both a file system, or both a raw device."""
    mode = volume["spec"].get("volumeMode", "Filesystem")
    return bool(mode == claim["spec"].get("volumeMode", "Filesystem"))


def fits(volume: Json, claim: Json) -> bool:
    """What is asked also of a volume that is promised to the claim."""
    offered, wanted = volume["spec"], claim["spec"]
    return (
        "deletionTimestamp" not in volume["metadata"]
        and _size(volume) >= nanos((wanted["resources"].get("requests") or {}).get("storage", 0))
        and have_same_mode(volume, claim)
        and offered.get("volumeAttributesClassName", "")
        == wanted.get("volumeAttributesClassName", "")
        and set(offered.get("accessModes") or ()).issuperset(wanted.get("accessModes") or ())
    )


def suits(volume: Json, claim: Json) -> bool:
    """What is asked of a volume that the claim names."""
    return fits(volume, claim) and class_of(volume) == class_of(claim)


def _size(volume: Json) -> int:
    return nanos((volume["spec"].get("capacity") or {}).get("storage", 0))


def _selector(claim: Json) -> CompiledSelector | None:
    selector = claim["spec"].get("selector")
    if selector is None:
        return None
    return compile_label_selector(msgspec.convert(selector, LabelSelector))


class _Rank(NamedTuple):
    """The least is taken first."""

    access_modes: int
    is_free: bool
    size: int
    name: str


def _rank(volume: Json) -> _Rank:
    spec = volume["spec"]
    is_free = "claimRef" not in spec
    modes = len(set(spec.get("accessModes") or ()))
    return _Rank(modes, is_free, _size(volume), volume["metadata"]["name"])


class _Groups(Generic[G, M]):
    """Members of groups, in the order they came."""

    def __init__(self) -> None:
        self._members: dict[G, dict[M, None]] = {}

    def add(self, group: G, member: M) -> None:
        self._members.setdefault(group, {})[member] = None

    def discard(self, group: G, member: M) -> None:
        members = self._members[group]
        del members[member]
        if not members:
            del self._members[group]

    def of(self, group: G) -> list[M]:
        return list(self._members.get(group, ()))


class VolumeIndex:
    """All claims and volumes. Of claims that want the same those come first that came first."""

    def __init__(self) -> None:
        self._volumes: dict[str, Json] = {}
        self._claims: dict[Key, Json] = {}
        self._promised: _Groups[Key, str] = _Groups()
        self._free: dict[str, list[_Rank]] = {}
        self._naming: _Groups[str, Key] = _Groups()
        self._waiting: _Groups[str, Key] = _Groups()

    def set_volume(self, name: str, volume: Json | None) -> None:
        """As it is now; None: it is gone."""
        old = self._volumes.pop(name, None)
        if old is not None:
            if "claimRef" in old["spec"]:
                self._promised.discard(_promised_to(old), name)
            elif _is_free(old):
                ranks = self._free[class_of(old)]
                del ranks[bisect_left(ranks, _rank(old))]
        if volume is None:
            return
        self._volumes[name] = volume
        if "claimRef" in volume["spec"]:
            self._promised.add(_promised_to(volume), name)
        elif _is_free(volume):
            insort(self._free.setdefault(class_of(volume), []), _rank(volume))

    def set_claim(self, key: Key, claim: Json | None) -> None:
        """As it is now; None: it is gone."""
        old = self._claims.pop(key, None)
        if claim is not None:
            self._claims[key] = claim
            if old is not None and _group(old) == _group(claim):
                return  # and keeps its turn
        if old is not None:
            volume, class_name = _group(old)
            if volume:
                self._naming.discard(volume, key)
            elif class_name is not None:
                self._waiting.discard(class_name, key)
        if claim is not None:
            volume, class_name = _group(claim)
            if volume:
                self._naming.add(volume, key)
            elif class_name is not None:
                self._waiting.add(class_name, key)

    def promised(self, key: Key) -> list[str]:
        """Volumes whose claimRef has this name, be it that of an earlier claim."""
        return self._promised.of(key)

    def naming(self, volume: str) -> list[Key]:
        """Claims whose spec.volumeName this is, bound or not."""
        return self._naming.of(volume)

    def waiting(self, class_name: str) -> list[Key]:
        """Claims of a class that have no volume and name none."""
        return self._waiting.of(class_name)

    def is_free(self, name: str) -> bool:
        volume = self._volumes.get(name)
        return volume is not None and _is_free(volume)

    def wanting(self, volume: Json) -> Iterator[Key]:
        """Of the claims that wait, those that a volume would be good for."""
        for key in self.waiting(class_of(volume)):
            claim = self._claims[key]
            if fits(volume, claim) and _is_selected(volume, _selector(claim)):
                yield key

    def best_match(self, claim: Json, *, with_free: bool) -> str | None:
        """The volume that a claim should get; without free ones only such as are promised."""
        metadata = claim["metadata"]
        found = []
        for name in self._promised.of((metadata["namespace"], metadata["name"])):
            volume = self._volumes[name]
            if is_promised_to(volume, claim) and fits(volume, claim):
                found.append(_rank(volume))
        if with_free:
            selector = _selector(claim)
            for rank in self._free.get(class_of(claim), ()):
                volume = self._volumes[rank.name]
                if fits(volume, claim) and _is_selected(volume, selector):
                    found.append(rank)
                    break
        return min(found).name if found else None


def is_complete(claim: Json) -> bool:
    """Bound once, whatever has become of it since."""
    return BIND_COMPLETED in annotations_of(claim)


def _is_free(volume: Json) -> bool:
    status = volume.get("status") or {}
    return "claimRef" not in volume["spec"] and status.get("phase") == "Available"


def _is_selected(volume: Json, selector: CompiledSelector | None) -> bool:
    return selector is None or selector.matches(volume["metadata"].get("labels") or {})


def _promised_to(volume: Json) -> Key:
    ref = volume["spec"]["claimRef"]
    return ref.get("namespace", ""), ref.get("name", "")


def _group(claim: Json) -> tuple[str, str | None]:
    """The volume that it names, or else the class in which it waits for one."""
    volume = claim["spec"].get("volumeName", "")
    return volume, None if volume or is_complete(claim) else class_of(claim)
