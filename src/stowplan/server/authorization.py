"""What a user may ask: privileged groups, open paths, and the API server's SubjectAccessReview.

`https_site` asks for every request. Invariant: an error never allows a request.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from stowplan.api.client import ApiClient
from stowplan.errors import ApiUnavailable, ConfigError
from stowplan.loader.json_text import load_json
from stowplan.server.access_metrics import AccessMetrics
from stowplan.server.authentication import User
from stowplan.server.review_cache import Answer, ReviewCache, post_review

_PRIVILEGED: Final = "system:masters"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
FLAG: Final = "--authorization-always-allow-paths"


class Decision(NamedTuple):
    is_allowed: bool
    reason: str = ""
    #: Forbidden by a rule; otherwise no rule allows it.
    is_denied: bool = False

    @property
    def result(self) -> str:
        """The decision as metrics name it."""
        return "allowed" if self.is_allowed else "denied" if self.is_denied else "no-opinion"


class _Status(msgspec.Struct):
    allowed: bool = False
    denied: bool = False
    reason: str = ""


class _Review(msgspec.Struct):
    status: _Status


class OpenPaths:
    """Paths that need no rights; a trailing * stands for any rest."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        """ConfigError for a * elsewhere."""
        for path in paths:
            if "*" in path[:-1]:
                raise ConfigError(f'only trailing * allowed in "{path}"', where=FLAG)
        bare = [path.removeprefix("/") for path in paths]
        self._whole = {path for path in bare if not path.endswith("*")}
        self._prefixes = tuple(path[:-1] for path in bare if path.endswith("*"))

    def has(self, path: str) -> bool:
        bare = path.removeprefix("/")
        return bare in self._whole or bare.startswith(self._prefixes)


class Authorizer:
    """Decides about paths; every request of this server is for a path, never for a resource."""

    def __init__(
        self,
        client: ApiClient,
        open_paths: OpenPaths,
        metrics: AccessMetrics,
        *,
        allowed_ttl_s: float,
        denied_ttl_s: float,
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._open_paths = open_paths
        self._allowed_ttl_s = allowed_ttl_s
        self._denied_ttl_s = denied_ttl_s
        self.decisions: ReviewCache[Decision] = ReviewCache()

    async def __call__(self, user: User, verb: str, path: str) -> Decision:
        """Whether the user may; an error of the API server is raised."""
        if _PRIVILEGED in user.groups or self._open_paths.has(path):
            return Decision(True)
        spec = {
            "nonResourceAttributes": {"path": path, "verb": verb},
            "user": user.name,
            "groups": user.groups,
            "extra": user.extra,
            "uid": user.uid,
        }
        encoded = msgspec.json.encode({name: value for name, value in spec.items() if value})

        async def ask() -> Answer[Decision]:
            review = {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": msgspec.Raw(encoded),
            }
            with self._metrics.access_reviews.request():
                body = await post_review(self._client, _REVIEWS, review)
            decision = _decision(body)
            ttl_s = self._allowed_ttl_s if decision.is_allowed else self._denied_ttl_s
            return Answer(decision, ttl_s, len(decision.reason) + 100)

        return await self.decisions.get(sha256(encoded).digest(), ask)


def _decision(body: bytes) -> Decision:
    try:
        status = load_json(body, _Review).status
    except ValueError as error:
        raise ApiUnavailable(f"POST {_REVIEWS}: not a SubjectAccessReview: {error}") from None
    return Decision(status.allowed and not status.denied, status.reason, status.denied)
