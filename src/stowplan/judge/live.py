"""Questions about the cluster of a running scheduler, in steps that leave it time to schedule.

`server.decide_api` runs the steps between the scheduler's own attempts. A question is judged

- on the engine's own table and profile if it has only a `pod`,
- on a cluster of its own if it brings `objects`,
- on a copy of the engine's cluster if it has `apply`, `delete` or `config`.

Invariants: the engine's cache, queue and cursor stay as they are; no step takes much longer than a
decision may (`cluster.work`); nothing is kept after the last question.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias

import msgspec

from stowplan.api.objects import Pod
from stowplan.api.resources import NODES, PODS, Resource
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.rebuild import discard
from stowplan.cluster.table import NodeTable
from stowplan.cluster.work import DECISION_WORK, DecisionDeferred
from stowplan.errors import StowplanError
from stowplan.framework.profile import Profile
from stowplan.framework.registry import Registry
from stowplan.judge.answers import Answering
from stowplan.judge.configuration import Configuration, parse_config, profile_for, read_config
from stowplan.judge.given_cluster import GivenCluster, asked_pod
from stowplan.judge.lines import Parts, check_members, decode, is_absent, take_apart
from stowplan.judge.objects import Key, ReadOptions, Thing, thing_of
from stowplan.judge.refusal import QuestionRefused
from stowplan.judge.template_claims import with_template_claims
from stowplan.judge.verdicts import Steps, summary_steps, verdict_steps
from stowplan.logs import get_logger, kv
from stowplan.plugin_failures import describe
from stowplan.scheduler.cycle import judge
from stowplan.scheduler.decision import Decision
from stowplan.scheduler.engine import Engine

Json: TypeAlias = dict[str, Any]

log = get_logger(__name__)

#: Bytes of one object, and of a configuration: what takes one step to read.
LARGEST_OBJECT: Final = 64 * 1024
LARGEST_CONFIG: Final = 16 * 1024
MOST_PROFILES: Final = 16
#: Nodes, pods and other objects that a question brings, and of a live cluster that is copied.
MOST_OBJECTS: Final = 10_000
MOST_COPIED: Final = 100_000
#: How often the judgement of a question may be interrupted for the scheduler's sake: with 50 ms
#: of work each time, about two seconds.
MOST_DEFERRALS: Final = 40
_MOST_WARNINGS: Final = 10
_EXTENDERS = "extenders are not called: they may reject nodes that fit here, or prefer others"


class LiveJudge(Answering):
    """Answers the questions of one request."""

    _MEMBERS = ("id", "config", "objects", "pod", "apply", "delete")

    def __init__(
        self,
        engine: Engine,
        *,
        registry: Registry | None = None,
        defaults: bool = False,
        brief: bool = False,
    ) -> None:
        """`brief` asks for summaries; the rest as for `Judge`."""
        super().__init__(registry=registry)
        self._how = ReadOptions(defaults, keep=False, largest=LARGEST_OBJECT)
        self._engine = engine
        self._shaped: Callable[[Decision], Steps] = summary_steps if brief else verdict_steps
        self._warnings: list[str] = []
        self._copy: GivenCluster | None = None

    def close(self) -> None:
        """Free what the questions needed."""
        if self._copy is not None:
            discard(self._copy.cache)
            self._copy = None

    def steps(self, text: bytes, number: int = 1) -> Steps:
        """The answer to a question in JSON, which has its number as id if it brings none."""
        said: Json = {"id": number}
        self._warnings = []
        try:
            parts = take_apart(text, 1)
            said["id"] = parts.pop("id", number)
            said |= yield from self._respond_steps(parts)
        except StowplanError as problem:
            said["error"] = "; ".join(str(problem).splitlines())
        except Exception as problem:
            log.exception("A question caused an internal error", extra=kv(number=number))
            said["error"] = f"internal error: {describe(problem)}"
        if self._warnings:
            said["warnings"] = self._warnings[:_MOST_WARNINGS]
        return said

    def refused(self, text: bytes, number: int, problem: str) -> Json:
        """The answer to a question that is not judged to its end."""
        try:
            return {"id": take_apart(text, 1).get("id", number), "error": problem}
        except QuestionRefused:
            return {"id": number, "error": problem}

    def _respond_steps(self, parts: Parts) -> Steps:
        check_members(parts, self._MEMBERS)
        given = {name for name in self._MEMBERS if not is_absent(parts.get(name))}
        pod = self._pod(parts)
        if pod is None:
            raise QuestionRefused("pod: Required value: the pod that is to be placed")
        yield
        if "objects" in given:
            return (yield from self._on_given(parts, pod))
        if given & {"apply", "delete", "config"}:
            return (yield from self._on_copy(parts, pod))
        return (yield from self._on_live(pod))

    def _on_live(self, pod: Thing) -> Steps:
        engine = self._engine
        table, nominator = engine.cache.table, engine.queue.nominator
        profile = self._live_profile(pod.struct)
        known = engine.lookup(pod.struct.key) if engine.lookup else None
        info = compile_pod(asked_pod(pod, known))
        self._tell_templates(info.pod, engine.cache.catalog)

        def decide() -> Decision:
            table.labels.trim()
            nominated = nominator if len(nominator) else None
            return judge(table, info, profile, nominated=nominated)

        return (yield from self._limited(table, decide))

    def _on_given(self, parts: Parts, pod: Thing) -> Steps:
        for name in ("apply", "delete"):
            if not is_absent(parts.get(name)):
                raise QuestionRefused(
                    f"{name}: Forbidden: changes are for the live cluster. Fix: leave them out, and"
                    " send objects as they are after the change"
                )
        config = self._config(parts) or read_config(b"{}", self._registry)
        cluster = GivenCluster()
        try:
            for count, thing in enumerate(self._each_object(parts, "objects"), 1):
                if count > MOST_OBJECTS:
                    raise QuestionRefused(f"objects: Too many: must have at most {MOST_OBJECTS}")
                cluster.put(thing)
                yield
            profile = cluster.settle(config.profile_for(pod.struct))
            return (yield from self._on_cluster(cluster, pod, profile, config.serves))
        finally:
            discard(cluster.cache)

    def _on_copy(self, parts: Parts, pod: Thing) -> Steps:
        """Judge on a copy that is changed for this question."""
        config = self._config(parts)
        if config is None:
            pattern, serves = self._live_profile(pod.struct), self._serves
        else:
            pattern, serves = config.profile_for(pod.struct), config.serves
        if self._copy is None:
            self._copy = yield from self._copied()
        cluster = self._copy
        applied: dict[Key, Thing] = {}
        for thing in self._each_object(parts, "apply"):
            applied[thing.key] = thing
            yield
        deleted = self._deletions(parts, applied, cluster.things)
        before = {key: cluster.things.get(key) for key in (*deleted, *applied)}
        self._copy = None  # until it is as before
        try:
            for key in deleted:
                cluster.remove(key)
                yield
            for thing in applied.values():
                cluster.put(thing)
                yield
            return (yield from self._on_cluster(cluster, pod, cluster.settle(pattern), serves))
        finally:
            # All new objects first: one may have the UID of an old one.
            for key in before:
                if key in cluster.things:
                    cluster.remove(key)
            for old in before.values():
                if old is not None:
                    cluster.put(old)
            self._copy = cluster

    def _copied(self) -> Generator[None, None, GivenCluster]:
        engine, cache = self._engine, self._engine.cache
        table, kinds = cache.table, engine.looked_up()
        count = len(table) + cache.pod_count + sum(len(cache.catalog[kind]) for kind in kinds)
        if count > MOST_COPIED:
            raise QuestionRefused(
                f"apply, delete and config need a copy of the cluster, which has {count} objects,"
                f" and at most {MOST_COPIED} are copied. Fix: leave them out, or send the part of"
                " the cluster that matters as objects"
            )
        nominator = engine.queue.nominator
        waiting = [
            _nominated(pod, node) for node in nominator.nodes() for pod in nominator.for_node(node)
        ]
        # All of one moment; what takes long is done with it in steps.
        held: list[tuple[Resource[Any], list[Any]]] = [
            (NODES, [table.node(table.row_of[name]) for name in table.node_names()]),
            (PODS, [*(pod for pod, _, _ in cache.placed()), *waiting]),
            *((kind, list(cache.catalog[kind])) for kind in kinds),
        ]
        cluster = GivenCluster()
        for kind, items in held:
            for item in items:
                cluster.put(thing_of(kind, item))
                yield
        return cluster

    def _on_cluster(
        self, cluster: GivenCluster, pod: Thing, profile: Profile, serves: Callable[[Pod], bool]
    ) -> Steps:
        self._tell_templates(pod.struct, cluster.cache.catalog)
        return (
            yield from self._limited(
                cluster.cache.table, lambda: cluster.judge(pod, profile, serves)
            )
        )

    def _tell_templates(self, pod: Pod, catalog: Catalog) -> None:
        """A scheduler does not read templates: a question must bring them."""
        for name in with_template_claims(pod, catalog).unknown:
            self._warnings.append(
                f"pod: spec.resourceClaims: the ResourceClaimTemplate {name} is not known here, so"
                " the pod waits for its claim. Fix: send the template in apply"
            )

    def _limited(self, table: NodeTable, decide: Callable[[], Decision]) -> Steps:
        """Judge as the engine decides: too much work for one step goes on in the next, where the
        finished pieces are cached.
        """
        for _ in range(MOST_DEFERRALS):
            table.work.limit(DECISION_WORK)
            try:
                decision = decide()
            except DecisionDeferred:
                table.work.unlimit()
                yield
            else:
                table.work.unlimit()
                return (yield from self._shaped(decision))
            finally:
                table.work.unlimit()
        raise QuestionRefused(
            "the question was given up after two seconds of work. Fix: give the pod fewer affinity"
            " terms, topology spread constraints or selector requirements"
        )

    def _read_config(self, text: bytes) -> Configuration:
        if len(text) > LARGEST_CONFIG:
            raise QuestionRefused(f"config: Too long: must have at most {LARGEST_CONFIG} bytes")
        raw = decode(text)
        profiles = raw.get("profiles") if isinstance(raw, dict) else None
        if isinstance(profiles, list) and len(profiles) > MOST_PROFILES:
            raise QuestionRefused(
                f"config.profiles: Too many: {len(profiles)}: must have at most {MOST_PROFILES}"
                " items"
            )
        return parse_config(text, self._registry)

    def _serves(self, pod: Pod) -> bool:
        """As `Configuration.serves`: an object that was given may lack the API server's default."""
        return not pod.spec.scheduler_name or self._engine.serves(pod)

    def _live_profile(self, pod: Pod) -> Profile:
        """The engine's profile for a pod, with warnings of what the engine would do otherwise."""
        profiles = self._engine.profiles
        profile = profile_for(profiles, pod)
        if not self._serves(pod):
            self._warnings.append(
                "pod: spec.schedulerName: this scheduler does not serve"
                f' "{pod.spec.scheduler_name}" and would ignore the pod;'
                f" answered as for {next(iter(profiles))}"
            )
        if self._engine.extenders:
            self._warnings.append(_EXTENDERS)
        return profile

    def _tell_complaints(self, place: str, thing: Thing) -> None:
        if len(self._warnings) < _MOST_WARNINGS:
            self._warnings += [f"{place}: {thing}: {said}" for said in thing.complaints]


def _nominated(pod: Pod, node: str) -> Pod:
    """The pod with a nomination that its status may not tell yet."""
    return msgspec.structs.replace(
        pod, status=msgspec.structs.replace(pod.status, nominated_node_name=node)
    )
