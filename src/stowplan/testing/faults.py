"""What goes wrong on purpose: answers of the API server, plugins that raise, nodes that vanish.

    faults.conflict()                      the next binding is answered with 409
    faults.plugin("OnSsd", "filter")       the plugin raises from now on
    faults.node_vanishes("n1")             the node is gone just before the next binding arrives

Requests that the test itself makes through the cluster are never touched, only the scheduler's and
its plugins'.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Unpack

from stowplan.api.transport import Params, RequestOptions, Requests
from stowplan.api.watch import Chunk
from stowplan.apiserver.faults import Action, Fault
from stowplan.framework.plugin import Plugin

_BINDING = "/binding"
_POINT_METHODS = (
    "pre_enqueue",
    "pre_filter",
    "filter",
    "filter_columns",
    "post_filter",
    "pre_score",
    "score",
    "score_columns",
    "normalize",
    "reserve",
    "unreserve",
    "permit",
    "pre_bind_pre_flight",
    "pre_bind",
    "bind",
    "post_bind",
)


@dataclass
class _Breakage:
    """A plugin that raises."""

    plugin: str
    method: str
    problem: BaseException
    times: int | None
    hits: int = 0


@dataclass
class _Ambush:
    """Something that happens just before a request arrives."""

    call: Callable[[], object]
    method: str
    path: str
    times: int | None
    hits: int = 0


@dataclass
class Faults:
    """Rules, tried in order; each is good for so many `times`, None for ever."""

    #: The API server's own list.
    requests: list[Fault] = field(default_factory=list)
    #: Removes a node from the cluster; set by the cluster.
    remove_node: Callable[[str], object] = lambda name: None
    _breakages: list[_Breakage] = field(default_factory=list)
    _ambushes: list[_Ambush] = field(default_factory=list)
    #: Plugins that can be made to raise.
    breakable: set[str] = field(default_factory=set)

    # The API server

    def api(
        self,
        status: int = 500,
        *,
        path: str = _BINDING,
        method: str = "",
        action: Action = "answer",
        times: int | None = 1,
        after: int = 0,
    ) -> Fault:
        """Answer requests whose path has `path` in it so; docs of `Fault` list the actions."""
        fault = Fault(
            path=path, method=method, status=status, action=action, times=times, after=after
        )
        self.requests.append(fault)
        return fault

    def not_found(self, path: str = _BINDING, *, times: int | None = 1) -> Fault:
        return self.api(404, path=path, times=times)

    def conflict(self, path: str = _BINDING, *, times: int | None = 1) -> Fault:
        return self.api(409, path=path, times=times)

    def server_error(self, path: str = _BINDING, *, times: int | None = 1) -> Fault:
        return self.api(500, path=path, times=times)

    def timeout(self, path: str = _BINDING, *, times: int | None = 1) -> Fault:
        """No answer, and nothing was done; the client gives up after its own patience."""
        return self.api(path=path, action="hang", times=times)

    def lost_answer(self, path: str = _BINDING, *, times: int | None = 1) -> Fault:
        """It was done, but the connection broke before the answer came."""
        return self.api(path=path, action="lose-answer", times=times)

    def late_arrival(self, path: str = _BINDING, *, delay_s: float) -> Fault:
        """The connection broke, and the request is carried out all the same, so much later."""
        fault = self.api(path=path, action="arrive-late")
        fault.delay_s = delay_s
        return fault

    # The cluster

    def before_request(
        self,
        call: Callable[[], object],
        *,
        path: str = _BINDING,
        method: str = "",
        times: int | None = 1,
    ) -> None:
        """Do something just before such a request arrives: after the decision, before its end."""
        self._ambushes.append(_Ambush(call, method, path, times))

    def node_vanishes(self, name: str) -> None:
        """The node is deleted between the decision and the binding."""
        self.before_request(lambda: self.remove_node(name))

    # Plugins

    def plugin(
        self,
        plugin: str | type[Plugin],
        method: str,
        problem: BaseException | None = None,
        *,
        times: int | None = None,
    ) -> None:
        """Let one of the cluster's own plugins raise when that method is called, until `clear`.

        A filter that raises is asked again, node by node, to find out where: `times` counts that.
        """
        name = plugin if isinstance(plugin, str) else plugin.name
        if name not in self.breakable:
            known = ", ".join(sorted(self.breakable)) or "none"
            raise ValueError(
                f"{name} cannot be made to raise: only plugins that the cluster was given can;"
                f" these are: {known}"
            )
        if method not in _POINT_METHODS:
            raise ValueError(f"{method} is not a method of plugins: {', '.join(_POINT_METHODS)}")
        self._breakages.append(
            _Breakage(name, method, problem or RuntimeError("broken on purpose"), times)
        )

    def clear(self) -> None:
        """From now on everything works."""
        self.requests.clear()
        self._breakages.clear()
        self._ambushes.clear()

    # Used by the cluster

    def strike(self, plugin: str, method: str) -> None:
        """Raise if a rule says so."""
        for rule in self._breakages:
            if rule.plugin == plugin and rule.method == method and not _is_spent(rule):
                rule.hits += 1
                raise rule.problem

    def ambush(self, method: str, path: str) -> None:
        """Let happen what is to happen before a request."""
        for rule in self._ambushes:
            fits = rule.path in path and rule.method in ("", method)
            if fits and not _is_spent(rule):
                rule.hits += 1
                rule.call()


def _is_spent(rule: _Breakage | _Ambush) -> bool:
    return rule.times is not None and rule.hits >= rule.times


def breakable(plugin: type[Plugin], faults: Faults) -> type[Plugin]:
    """The plugin with every point listening to `faults` first."""
    faults.breakable.add(plugin.name)
    methods = {
        name: _listening(getattr(plugin, name), plugin.name, name, faults)
        for name in _POINT_METHODS
        if callable(getattr(plugin, name, None))
    }
    return type(plugin.__name__, (plugin,), {**methods, "__module__": plugin.__module__})


def _listening(
    method: Callable[..., Any], plugin: str, name: str, faults: Faults
) -> Callable[..., Any]:
    @wraps(method)
    def listening(*args: Any) -> Any:
        faults.strike(plugin, name)
        return method(*args)

    return listening


class AmbushedTransport:
    """A client's way to the API server, on which things happen."""

    def __init__(self, inner: Requests, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> bytes:
        self._faults.ambush(method, path)
        return await self._inner.request(method, path, **options)

    def stream(
        self, path: str, *, params: Params, inactivity_s: float
    ) -> AbstractAsyncContextManager[AsyncIterable[Chunk]]:
        return self._inner.stream(path, params=params, inactivity_s=inactivity_s)

    async def close(self) -> None:
        await self._inner.close()
