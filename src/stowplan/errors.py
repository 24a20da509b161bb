"""All errors that Stowplan raises on purpose. This module imports nothing.

    StowplanError                 exit 1
      ConfigError                 exit 2   a file or flag is invalid; names its place
        KubeconfigError           exit 2
      PluginError                 exit 1   a plugin broke its contract or raised
        StatusError               exit 1   a plugin answered with an error status
      ExtenderError               exit 1   an extender did not respond, or not correctly
      LeadershipLost              exit 1
      ApiError                    exit 1   the API server answered with an error Status
        BadRequest 400, Unauthorized 401, Forbidden 403, NotFound 404, Conflict 409,
        AlreadyExists 409, Gone 410, Invalid 422, Throttled 429, ServerError 5xx
      ApiUnavailable              exit 1   no usable response: refused, reset, timed out

The exit code is part of the type, so a command just lets the error propagate.
"""

from __future__ import annotations


class StowplanError(Exception):
    """Base class of all errors; `str()` is a message for the user."""

    exit_code = 1


class ConfigError(StowplanError):
    """A file or flag is invalid. `where` is a file, a flag or a field path."""

    exit_code = 2

    def __init__(self, message: str, *, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.where = where


class KubeconfigError(ConfigError):
    """The kubeconfig cannot be used."""


_POINTS_IN_OTHER_WORDS = {
    "Filter": 'running "{plugin}" filter plugin: ',
    "Score": 'running Score plugins: plugin "{plugin}" failed with: ',
    "Normalize": 'running Normalize on Score plugins: plugin "{plugin}" failed with: ',
    "Weigh": 'applying score defaultWeights on Score plugins: plugin "{plugin}" ',
}


class PluginError(StowplanError):
    """A plugin raised, or returned what its contract forbids."""

    def __init__(self, plugin: str, point: str, message: str) -> None:
        # kube-scheduler words some points' errors differently from all the others.
        what = _POINTS_IN_OTHER_WORDS.get(point, 'running {point} plugin "{plugin}": ')
        super().__init__(what.format(point=point, plugin=plugin) + message)
        self.plugin = plugin
        self.point = point


class StatusError(PluginError):
    """A plugin answered with an error status: it works, but cannot judge, as a CEL expression fails
    or a storage class is missing.
    """


class ExtenderError(StowplanError):
    """A scheduler extender did not answer, or answered with an error."""


class LeadershipLost(StowplanError):
    """The lease could not be renewed in time; the process must stop scheduling at once."""


class ApiUnavailable(StowplanError):
    """No usable response from the API server: refused, reset, timed out or not HTTP.

    If `maybe_done`, the request may have reached the server, so check its effect before a retry.
    """

    def __init__(self, message: str, *, maybe_done: bool = False) -> None:
        super().__init__(message)
        self.maybe_done = maybe_done


class ApiError(StowplanError):
    """The API server answered with an error. `status` is HTTP's, `reason` is Kubernetes'."""

    status = 0

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.status = status or type(self).status
        self.reason = reason


class BadRequest(ApiError):
    status = 400


class Unauthorized(ApiError):
    status = 401


class Forbidden(ApiError):
    status = 403


class NotFound(ApiError):
    status = 404


class Conflict(ApiError):
    status = 409


class AlreadyExists(Conflict):
    """409 with reason AlreadyExists."""


class Gone(ApiError):
    """The requested resourceVersion is too old; list again."""

    status = 410


class Invalid(ApiError):
    status = 422


class Throttled(ApiError):
    """429; `retry_after_s` is the server's Retry-After, or 1 second without one."""

    status = 429

    def __init__(
        self, message: str, *, status: int = 429, reason: str = "", retry_after_s: float = 1.0
    ) -> None:
        super().__init__(message, status=status, reason=reason)
        self.retry_after_s = retry_after_s


class ServerError(ApiError):
    """5xx: the server failed, possibly after it carried out the request."""

    status = 500
