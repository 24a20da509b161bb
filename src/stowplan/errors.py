"""Every error that Stowplan raises on purpose; nothing else imports less than this module.

    StowplanError                 exit 1
      ConfigError                 exit 2   a file or flag the user wrote is wrong; says where
        KubeconfigError           exit 2
      PluginError                 exit 1   a plugin broke its contract or raised
      ExtenderError               exit 1   an extender did not answer, or not as it should
      LeadershipLost              exit 1
      ApiError                    exit 1   the API server answered with an error Status
        BadRequest 400, Unauthorized 401, Forbidden 403, NotFound 404, Conflict 409,
        AlreadyExists 409, Gone 410, Invalid 422, Throttled 429, ServerError 5xx
      ApiUnavailable              exit 1   no usable answer: refused, reset, timed out

The exit code is part of the type, so a command only has to let the error through.
"""

from __future__ import annotations


class StowplanError(Exception):
    """Root of the tree; `str()` is one line made for a person."""

    exit_code = 1


class ConfigError(StowplanError):
    """Something the user wrote is wrong. `where` is a file, a flag or a field path."""

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


class ExtenderError(StowplanError):
    """A scheduler extender did not answer, or answered with an error."""


class LeadershipLost(StowplanError):
    """The lease could not be renewed in time; the process must stop scheduling at once."""


class ApiUnavailable(StowplanError):
    """No usable answer from the API server: refused, reset, timed out or not HTTP.

    `maybe_done` tells that the request may have reached the server, so that its effect must be
    looked up before it is tried again.
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
    """The resourceVersion asked for is too old: list again."""

    status = 410


class Invalid(ApiError):
    status = 422


class Throttled(ApiError):
    """429; `retry_after_s` is the server's wish, 1 second where it said nothing."""

    status = 429

    def __init__(
        self, message: str, *, status: int = 429, reason: str = "", retry_after_s: float = 1.0
    ) -> None:
        super().__init__(message, status=status, reason=reason)
        self.retry_after_s = retry_after_s


class ServerError(ApiError):
    """5xx: the server failed, possibly after it carried out the request."""

    status = 500
