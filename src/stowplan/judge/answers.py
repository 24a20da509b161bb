"""Answers to lines of JSON: `Judge` for questions with their own cluster, `Stream` for many on one.

Every line gets an answer, whatever it holds, and so does the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from stowplan.errors import StowplanError
from stowplan.framework.profile import Profile
from stowplan.framework.registry import Registry
from stowplan.judge.configuration import Configuration, default_registry, read_config
from stowplan.judge.documents import yaml_as_json
from stowplan.judge.given_cluster import GivenCluster
from stowplan.judge.lines import (
    Parts,
    check_members,
    decode,
    is_absent,
    json_type,
    list_of,
    take_apart,
)
from stowplan.judge.objects import Key, ReadOptions, Thing, find_key, read_objects, read_pod
from stowplan.judge.refusal import QuestionRefused
from stowplan.judge.verdicts import verdicts
from stowplan.logs import get_logger, kv
from stowplan.plugin_failures import describe as describe_problem

Json: TypeAlias = dict[str, Any]

log = get_logger(__name__)

#: How many profiles a stream keeps warm.
_MOST_PROFILES = 16


def answer(line: Mapping[str, Any]) -> Json:
    """The answer to one question; docs/decide.md has the format."""
    return Judge().answer(line)


class Answering:
    """What all kinds of lines share. Subclasses say what a line's members mean."""

    def __init__(
        self,
        *,
        defaults: bool = False,
        check: bool = True,
        strict: bool = False,
        registry: Registry | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        """Create a judge.

        `defaults` fills in defaults as the API server does. `check` rejects malformed objects,
        `strict` rejects everything that the API server would reject. `registry` has the plugins
        that configurations may name. `warn` is called for other problems that the server reports.
        """
        self._how = ReadOptions(defaults, check, strict)
        self._warn = warn
        self._registry = registry if registry is not None else default_registry()
        self._count = 0

    def answer(self, line: Mapping[str, Any]) -> Json:
        """The answer to a line that has been parsed."""
        try:
            text = msgspec.json.encode(line)
        except (TypeError, ValueError, RecursionError) as problem:
            self._count += 1
            return {"id": line.get("id", self._count), "error": f"is not JSON: {problem}"}
        said = self.answer_text(text)
        return {**said, "id": line.get("id", said["id"])}

    def answer_text(self, text: bytes, number: int | None = None, *, is_yaml: bool = False) -> Json:
        """The answer to a question in JSON or YAML. One without an id gets its line number, by
        default the next. The id is still the question's own text, as `msgspec.json.encode` takes
        it.
        """
        self._count = self._count + 1 if number is None else number
        said: Json = {"id": self._count}
        try:
            if is_yaml:
                text = yaml_as_json(text, self._count)
            parts = take_apart(text, self._count)
            said["id"] = parts.pop("id", self._count)
            return said | self._respond(parts)
        except StowplanError as problem:
            return said | {"error": "; ".join(str(problem).splitlines())}
        except Exception as problem:
            log.exception("A question caused an internal error", extra=kv(line=self._count))
            return said | {"error": f"internal error: {describe_problem(problem)}"}

    def _respond(self, parts: Parts) -> Json:
        raise NotImplementedError

    def _config(self, parts: Parts) -> Configuration | None:
        text = parts.get("config")
        if text is None or is_absent(text):
            return None
        return self._read_config(bytes(text))

    def _read_config(self, text: bytes) -> Configuration:
        return read_config(text, self._registry)

    def _pod(self, parts: Parts) -> Thing | None:
        text = parts.get("pod")
        if text is None or is_absent(text):
            return None
        pod = read_pod(text, "pod", self._how)
        self._tell_complaints("pod", pod)
        return pod

    def _objects(self, parts: Parts, name: str, serial: int = 0) -> dict[Key, Thing]:
        """The objects of a member by key, each key once; `serial` begins made-up names."""
        return {thing.key: thing for thing in self._each_object(parts, name, serial)}

    def _each_object(self, parts: Parts, name: str, serial: int = 0) -> Iterator[Thing]:
        """The same, one by one."""
        places: dict[Key, str] = {}
        texts = list_of(parts, name)
        for place, thing in read_objects(texts, name, self._how):
            if not thing.name:
                serial += 1
                thing = thing.named(f"{thing.prefix}{serial}")
            self._tell_complaints(place, thing)
            first = places.setdefault(thing.key, place)
            if first is not place:
                raise QuestionRefused(
                    f"{place}: {thing}: metadata.name: Duplicate value:"
                    f' "{thing.name}": {first} has the same name'
                )
            yield thing

    def _tell_complaints(self, place: str, thing: Thing) -> None:
        if self._warn is not None:
            for complaint in thing.complaints:
                self._warn(f"line {self._count}: {place}: {thing}: {complaint}")

    def _tell_unknown(self, cluster: GivenCluster, pod: Thing) -> None:
        if self._warn is not None:
            for name in cluster.supposed(pod).unknown:
                self._warn(
                    f"line {self._count}: pod: {pod}: spec.resourceClaims: the"
                    f" ResourceClaimTemplate {name} is not among the objects"
                )

    def _deletions(
        self, parts: Parts, applied: Container[Key], things: Container[Key]
    ) -> list[Key]:
        """The keys of the objects to delete, which `things` must have."""
        keys: dict[Key, None] = {}
        for index, text in enumerate(list_of(parts, "delete")):
            key, shown = self._deletion(f"delete[{index}]", bytes(text))
            if key in applied:
                raise QuestionRefused(f"delete[{index}]: {shown} is applied in the same line")
            if key in keys:
                raise QuestionRefused(f"delete[{index}]: {shown} is there twice")
            if key not in things:
                raise QuestionRefused(f"delete[{index}]: {shown} not found")
            keys[key] = None
        return list(keys)

    def _deletion(self, place: str, text: bytes) -> tuple[Key, str]:
        raw = decode(text)
        if not isinstance(raw, dict):
            raise QuestionRefused(f"{place}: expected an object, got {json_type(text)}")
        try:
            return find_key(raw)
        except QuestionRefused as problem:
            raise problem.at(place) from None


class Judge(Answering):
    """Answers questions that bring their cluster with them."""

    _MEMBERS = ("id", "config", "objects", "pod")

    def _respond(self, parts: Parts) -> Json:
        check_members(parts, self._MEMBERS)
        config = self._config(parts) or read_config(b"{}", self._registry)
        pod = self._pod(parts)
        if pod is None:
            raise QuestionRefused("pod: Required value: the pod that is to be placed")
        if is_absent(parts.get("objects")):
            raise QuestionRefused(
                "objects: Required value: the nodes, pods and so on of the cluster"
            )
        cluster = GivenCluster()
        for thing in self._objects(parts, "objects").values():
            cluster.put(thing)
        self._tell_unknown(cluster, pod)
        return verdicts(
            cluster.judge(pod, cluster.settle(config.profile_for(pod.struct)), config.serves)
        )


class Stream(Answering):
    """One cluster that changes from line to line. A line that fails changes nothing."""

    _MEMBERS = ("id", "config", "apply", "delete", "pod")

    def __init__(self, **how: Any) -> None:
        """`how`: as for `Judge`."""
        super().__init__(**how)
        self._config_now = read_config(b"{}", self._registry)
        self._begin(GivenCluster())

    def _begin(self, cluster: GivenCluster) -> None:
        self._cluster = cluster
        #: Profiles by their pattern, so that a repeated configuration reuses warm caches.
        self._profiles: dict[Profile, Profile] = {}

    def _settled(self, pattern: Profile) -> Profile:
        profile = self._profiles.get(pattern)
        if profile is None:
            if len(self._profiles) >= _MOST_PROFILES:
                self._profiles.clear()
            profile = self._profiles[pattern] = self._cluster.settle(pattern)
        return profile

    def _respond(self, parts: Parts) -> Json:
        check_members(parts, self._MEMBERS)
        config = self._config(parts) or self._config_now
        pod = self._pod(parts)
        applied = self._objects(parts, "apply", self._count * 1_000_000)
        deleted = self._deletions(parts, applied, self._cluster.things)
        profile = self._settled(config.profile_for(pod.struct)) if pod is not None else None
        before = {key: self._cluster.things.get(key) for key in (*applied, *deleted)}
        try:
            said = self._change_and_judge(applied, deleted, pod, profile, config)
        except BaseException:
            if before:
                self._go_back_to(before)
            raise
        self._config_now = config
        return said

    def _change_and_judge(
        self,
        applied: dict[Key, Thing],
        deleted: list[Key],
        pod: Thing | None,
        profile: Profile | None,
        config: Configuration,
    ) -> Json:
        for key in deleted:
            self._cluster.remove(key)
        for thing in applied.values():
            self._cluster.put(thing)
        if pod is None or profile is None:
            return {}
        self._tell_unknown(self._cluster, pod)
        return self._judged(self._cluster, pod, profile, config)

    def _judged(
        self, cluster: GivenCluster, pod: Thing, profile: Profile, config: Configuration
    ) -> Json:
        """The answer for the cluster as it is now."""
        return verdicts(cluster.judge(pod, profile, config.serves))

    def _go_back_to(self, before: dict[Key, Thing | None]) -> None:
        """Rebuild the cluster: slower than undoing changes, but never incomplete."""
        cluster = GivenCluster()
        for thing in (self._cluster.things | before).values():
            if thing is not None:
                cluster.put(thing)
        self._begin(cluster)
