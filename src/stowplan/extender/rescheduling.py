"""`/reschedule` and `reschedule_interval`: deletes pods that an algorithm would put elsewhere.

Their controller (a StatefulSet, a Deployment) creates new pods, which are scheduled again. Off
unless it is configured: POST needs a bearer token, the WCA scheduler's GET a setting of its own,
because browsers, crawlers and probes send GETs. Invariants: only pods that the algorithm saw are
deleted (by UID), never more than `limit` at a time, none before the cluster is known, none without
a node or a controller that replaces it, and none by a request whose query is not understood.
"""

from __future__ import annotations

import asyncio
import difflib
import hmac
import math
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import parse_qs

import msgspec

from stowplan.api.objects import Pod
from stowplan.errors import ConfigError, NotFound, StowplanError
from stowplan.extender import background
from stowplan.extender.algorithm import Algorithm
from stowplan.extender.algorithms.apps import BaseAlgorithm
from stowplan.extender.background import Troubles, end
from stowplan.extender.failures import Failures
from stowplan.extender.metrics import Metric
from stowplan.extender.writing import checked_pod_names
from stowplan.http.messages import Request, Response, error_response
from stowplan.logs import get_logger, kv

if TYPE_CHECKING:
    from stowplan.extender.kubeapi import Kubeapi

log = get_logger(__name__)

PATH: Final = "/reschedule"
DEFAULT_LIMIT: Final = 10
_ALGORITHM_TIMEOUT_S: Final = 60.0
DELETED: Final = "deleted"
SKIPPED: Final = "skipped"
FAILED: Final = "failed"
_DRY_RUN: Final = "dryRun"
_LIMIT: Final = "limit"
_PARAMETERS: Final = {name.lower(): name for name in (_DRY_RUN, _LIMIT)}


class Routes(Protocol):
    """Where paths are served."""

    def add_route(
        self,
        method: str,
        path: str,
        handler: Callable[[Request], Response | Awaitable[Response]],
        *,
        is_open: bool = False,
    ) -> None: ...

    def refused(self, status: int) -> None:
        """Count a request that is refused."""


class NotNowError(Exception):
    """Nothing was deleted, and the text says why."""


class AlgorithmFailed(Exception):
    """The algorithm raised; the text says what and where. It is logged already."""


class BadQuery(ValueError):
    """A query of /reschedule that must not delete anything, because it is not understood."""


@dataclass(slots=True)
class Round:
    """What became of the pods that an algorithm named, in its order."""

    dry_run: bool
    deleted: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    #: Beyond the limit, and so left for the next round.
    left: int = 0

    def as_json(self) -> bytes:
        deleted = "WouldDelete" if self.dry_run else "Deleted"
        return msgspec.json.encode(
            {
                "DryRun": self.dry_run,
                deleted: self.deleted,
                "Skipped": self.skipped,
                "Failed": self.failed,
                "Left": self.left,
            }
        )


class Rescheduler:
    """A part that runs (see `background.Runs`), and the handlers of `/reschedule`."""

    name = "rescheduling"

    def __init__(
        self,
        algorithm: Algorithm,
        kubeapi: Kubeapi | None,
        *,
        interval: float = 0.0,
        token_file: str = "",
        by_get: bool = False,
        limit: int = DEFAULT_LIMIT,
        also_bare_pods: bool = False,
    ) -> None:
        """`interval`: seconds between rounds, 0 for none. `by_get`: whether GET deletes pods, too,
        with the token, or without one if there is no `token_file`."""
        if not 0 <= interval < math.inf:
            raise ConfigError(f"{interval:g} is not 0 or more seconds", where="reschedule_interval")
        if limit < 1:
            raise ConfigError(f"{limit} is less than 1", where="reschedule_limit")
        if kubeapi is None and (interval or token_file or by_get):
            raise ConfigError("needs `kubeapi: !Kubeapi`, to delete pods", where="reschedule")
        self._algorithm = algorithm
        self._kubeapi = kubeapi
        self._interval_s = interval
        self._token_file = Path(token_file) if token_file else None
        self._by_get = by_get
        self._limit = limit
        self._also_bare_pods = also_bare_pods
        self._is_busy = False
        self._task: asyncio.Task[None] | None = None
        self._troubles = Troubles("rescheduling")
        self._failures = Failures(algorithm)
        self._routes: Routes | None = None
        self._rounds = {"done": 0, "failed": 0}
        self._pods = {DELETED: 0, SKIPPED: 0, FAILED: 0}
        if self._token_file is not None:
            self._token()

    # A part that runs

    async def start(self) -> None:
        if self._interval_s and self._task is None:
            self._task = asyncio.create_task(self._run(), name="rescheduling")

    async def stop(self) -> None:
        await end(self._task)
        self._task = None

    def why_not_ready(self) -> str | None:
        return None

    def note(self) -> str | None:
        return f"the last round failed: {self._troubles.last}" if self._troubles.last else None

    def measures(self) -> Iterable[Metric]:
        for result, count in self._rounds.items():
            yield Metric(background.RESCHEDULES, count, {"result": result})
        for result, count in self._pods.items():
            yield Metric(background.RESCHEDULED_PODS, count, {"result": result})

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self.run_once()
            except Exception as error:
                self._troubles.add(_told(error))

    # One round

    async def run_once(self, *, dry_run: bool = False, limit: int | None = None) -> Round:
        """Ask the algorithm, and delete what it names; NotNowError or AlgorithmFailed if not."""
        kubeapi = self._kubeapi
        if kubeapi is None or not kubeapi.is_synced:
            raise NotNowError("the nodes and pods of the cluster are not known yet")
        if self._is_busy:
            raise NotNowError("another round is in progress")
        self._is_busy = True
        try:
            names = await self._ask()
            done = Round(dry_run)
            most = self._limit if limit is None else min(limit, self._limit)
            for name in names:
                await self._consider(kubeapi, name, done, most)
        except BaseException:
            self._rounds["failed"] += 1
            raise
        finally:
            self._is_busy = False
        self._count(done)
        return done

    async def _ask(self) -> list[str]:
        try:
            if self._algorithm.runs_in_thread:
                async with asyncio.timeout(_ALGORITHM_TIMEOUT_S):
                    names = await asyncio.to_thread(self._algorithm.reschedule)
            else:
                names = self._algorithm.reschedule()
            return list(dict.fromkeys(checked_pod_names(names)))
        except Exception as error:
            raise AlgorithmFailed(self._failures.report("reschedule", error)) from error

    async def _consider(self, kubeapi: Kubeapi, name: str, done: Round, most: int) -> None:
        pods = kubeapi.view.pods_named(name)
        reason = self._why_not(pods)
        if reason:
            done.skipped[name] = reason
        elif len(done.deleted) + len(done.failed) >= most:
            done.left += 1
        elif done.dry_run:
            done.deleted.append(name)
        else:
            try:
                await kubeapi.delete_pod(pods[0])
            except NotFound:
                done.skipped[name] = "it is gone"
            except StowplanError as error:
                done.failed[name] = str(error)
            else:
                done.deleted.append(name)

    def _why_not(self, pods: list[Pod]) -> str:
        if not pods:
            return "there is no such pod in the monitored namespaces"
        if len(pods) > 1:
            return "there are pods of that name in several namespaces"
        (pod,) = pods
        if pod.is_terminating or pod.is_finished:
            return "it is already being deleted"
        if not pod.spec.node_name:
            return "it has no node yet"
        owners = pod.metadata.owner_references or ()
        if not self._also_bare_pods and not any(owner.controller for owner in owners):
            return "it has no controller that would replace it"
        return ""

    def _count(self, done: Round) -> None:
        self._rounds["done"] += 1
        self._troubles.over()
        if done.dry_run:
            return
        for result, pods in (
            (DELETED, done.deleted),
            (SKIPPED, done.skipped),
            (FAILED, done.failed),
        ):
            self._pods[result] += len(pods)
        if done.deleted or done.failed:
            log.info(
                "[Rescheduling]",
                extra=kv(deleted=done.deleted, failed=done.failed, left=done.left),
            )

    # Over HTTP

    def add_routes(self, routes: Routes) -> None:
        """Also where it is off: the answer then says how to turn it on.

        Open, where it has a token of its own: a request cannot show two.
        """
        self._routes = routes
        needs_token = self._token_file is not None or not self._by_get
        routes.add_route("POST", PATH, self._post, is_open=True)
        routes.add_route("GET", PATH, self._get, is_open=needs_token)

    async def _post(self, request: Request) -> Response:
        return self._counted(self._refuse(request) or await self._answer(request))

    async def _get(self, request: Request) -> Response:
        return self._counted(await self._answer_get(request))

    def _counted(self, answer: Response) -> Response:
        if self._routes is not None and 400 <= answer.status < 500:
            self._routes.refused(int(answer.status))
        return answer

    async def _answer_get(self, request: Request) -> Response:
        """Without a query the answer is the WCA scheduler's, `true`, whatever was deleted."""
        if request.head.method != "GET":  # HEAD asks for the same, but must not delete anything
            return error_response(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and POST", Allow="GET")
        if self._token_file is not None or not self._by_get:
            refused = self._refuse(request)
            if refused is not None:
                return refused
        answer = await self._answer(request, may_delete=self._by_get)
        is_original = answer.status == HTTPStatus.OK and not request.head.query
        return Response(b"true") if is_original else answer

    async def _answer(self, request: Request, *, may_delete: bool = True) -> Response:
        """`?dryRun=true` only reports; `?limit=3` lowers the limit, 0 included."""
        try:
            dry_run, limit = _read_query(request.head.query)
        except BadQuery as error:
            return error_response(HTTPStatus.BAD_REQUEST, f"nothing was deleted: {error}")
        if not (dry_run or may_delete):
            problem = (
                "GET would delete pods and is off: use POST, add ?dryRun=true, or set "
                "reschedule_by_get: true"
            )
            return error_response(HTTPStatus.METHOD_NOT_ALLOWED, problem, Allow="POST")
        try:
            return Response((await self.run_once(dry_run=dry_run, limit=limit)).as_json())
        except NotNowError as error:
            return error_response(HTTPStatus.SERVICE_UNAVAILABLE, str(error), Retry_After="5")
        except Exception as error:
            problem = _told(error)
            self._troubles.add(problem)
            return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, problem)

    def _refuse(self, request: Request) -> Response | None:
        if self._token_file is None:
            problem = "rescheduling over HTTP is off; set reschedule_token_file to turn it on"
            if self._by_get:
                problem = "POST needs reschedule_token_file; only GET is on"
            return error_response(HTTPStatus.FORBIDDEN, problem)
        try:
            token = self._token()
        except ConfigError as error:
            self._troubles.add(str(error))
            return error_response(HTTPStatus.FORBIDDEN, "the token cannot be read")
        scheme, _, shown = request.head.headers.get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(shown.strip().encode("latin-1", "replace"), token)
        if scheme.lower() != "bearer" or not is_right:
            problem = "rescheduling needs the bearer token of reschedule_token_file"
            return error_response(HTTPStatus.UNAUTHORIZED, problem, WWW_Authenticate="Bearer")
        return None

    def _token(self) -> bytes:
        """Read each time, because it may be changed."""
        assert self._token_file is not None
        try:
            token = self._token_file.read_bytes().strip()
        except OSError as error:
            raise ConfigError(
                f"cannot read {self._token_file}: {error.strerror}", where="reschedule_token_file"
            ) from None
        if not token:
            raise ConfigError(f"{self._token_file} is empty", where="reschedule_token_file")
        return token


def has_reschedule(algorithm: Algorithm) -> bool:
    """Whether it has a method of its own, so that it can name any pods."""
    kind = type(algorithm)
    if isinstance(algorithm, BaseAlgorithm) and kind.reschedule is BaseAlgorithm.reschedule:
        own = type(algorithm).reschedule_with_metrics
        return own is not BaseAlgorithm.reschedule_with_metrics
    return kind.reschedule is not Algorithm.reschedule


def _read_query(query: str) -> tuple[bool, int | None]:
    """Whether it is a dry run, and the limit, if there is one.

    A name that is almost right must not be ignored: `?dryrun=true` would delete pods.
    """
    given = parse_qs(query, keep_blank_values=True)
    for name in given.keys() - {_DRY_RUN, _LIMIT}:
        near = difflib.get_close_matches(name.lower(), _PARAMETERS, 1)
        hint = f"did you mean {_PARAMETERS[near[0]]}?" if near else "there are dryRun and limit"
        raise BadQuery(f"there is no parameter {name!r}; {hint}")
    dry_run = given.get(_DRY_RUN, ["false"])[-1].lower()
    if dry_run not in ("true", "false", "all", ""):
        raise BadQuery(f"dryRun is true or false, not {dry_run!r}")
    if _LIMIT not in given:
        return dry_run != "false", None
    limit = given[_LIMIT][-1]
    if not (limit.isascii() and limit.isdecimal() and len(limit) < 10):
        raise BadQuery(f"limit is a number from 0, not {limit!r}")
    return dry_run != "false", int(limit)


def _told(error: Exception) -> str:
    is_ours = isinstance(error, NotNowError | AlgorithmFailed)
    return str(error) if is_ours else f"{type(error).__name__}: {error}"
