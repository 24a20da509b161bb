"""Permissions by the roles and bindings of a manifest: RBAC without a server that enforces it.

For the check of lesson 4: the embedded API server serves no roles, and a learner without a control
plane needs to know whether theirs suffice. Supports only what that lesson needs: rules with groups,
resources and verbs, granted to service accounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

API_VERSION: Final = "rbac.authorization.k8s.io/v1"
GROUP: Final = "rbac.authorization.k8s.io"
_EVERYTHING: Final = "*"


class Meta(msgspec.Struct, frozen=True):
    name: str
    namespace: str | None = None


class Rule(msgspec.Struct, frozen=True, rename="camel"):
    verbs: list[str]
    api_groups: list[str] = []
    resources: list[str] = []

    def allows(self, right: Right, *, in_any_group: bool = False) -> bool:
        """True if the rule allows the right; pods and nodes are in the group without a name."""

        def has(allowed: list[str], wanted: str) -> bool:
            return wanted in allowed or _EVERYTHING in allowed

        is_group = in_any_group or has(self.api_groups, "")
        return is_group and has(self.resources, right.resource) and has(self.verbs, right.verb)

    @property
    def is_without_bounds(self) -> bool:
        return any(_EVERYTHING in part for part in (self.api_groups, self.resources, self.verbs))


class Role(msgspec.Struct, frozen=True):
    kind: str
    metadata: Meta
    rules: list[Rule] | None = None


class RoleRef(msgspec.Struct, frozen=True, rename="camel"):
    api_group: str
    kind: str
    name: str


class Subject(msgspec.Struct, frozen=True):
    kind: str
    name: str
    namespace: str = ""


class Binding(msgspec.Struct, frozen=True, rename="camel"):
    kind: str
    metadata: Meta
    role_ref: RoleRef
    subjects: list[Subject] | None = None


class Right(NamedTuple):
    """A verb on a resource, and the kinds of binding that can grant it."""

    verb: str
    resource: str
    bindings: tuple[str, ...]


class Malformed(Exception):
    """An object that no API server would accept."""

    def __init__(self, kind: str, name: str, why: object) -> None:
        super().__init__(f"{kind} {name}: {why}")
        self.kind = kind
        self.name = name
        self.why = why


class Roles:
    """All roles and bindings of some documents."""

    def __init__(self, documents: Iterable[Mapping[str, Any]]) -> None:
        self.roles: list[Role] = []
        self.bindings: list[Binding] = []
        for each in documents:
            kind, name = each["kind"], each["metadata"]["name"]
            try:
                if kind in ("Role", "ClusterRole"):
                    self.roles.append(msgspec.convert(each, Role))
                elif kind in ("RoleBinding", "ClusterRoleBinding"):
                    self.bindings.append(msgspec.convert(each, Binding))
            except msgspec.ValidationError as error:
                raise Malformed(kind, name, error) from None

    def given(self, kind: str, account: str, namespace: str) -> Iterator[Role]:
        """The roles that bindings of a kind grant to a service account."""
        for binding in self.bindings:
            if binding.kind != kind or not _names(binding, account, namespace):
                continue
            reference = binding.role_ref
            for role in self.roles:
                if (role.kind, role.metadata.name) == (reference.kind, reference.name):
                    yield role

    def rules(self, right: Right, account: str, namespace: str) -> list[Rule]:
        """All rules that could grant the right."""
        return [
            rule
            for kind in right.bindings
            for role in self.given(kind, account, namespace)
            for rule in role.rules or ()
        ]

    def subjects(self, kind: str) -> list[Subject]:
        """The subjects that bindings of a kind name."""
        bindings = [each for each in self.bindings if each.kind == kind]
        return [subject for binding in bindings for subject in binding.subjects or ()]


def _names(binding: Binding, account: str, namespace: str) -> bool:
    wanted = ("ServiceAccount", account, namespace)
    subjects = binding.subjects or ()
    return any((each.kind, each.name, each.namespace) == wanted for each in subjects)
