"""Declarations of Kubernetes' authorizer library, without implementations.

Device selectors have no variable of these types, so no call of them passes the checker. The
declarations make its error messages the same as upstream's.
"""

from __future__ import annotations

from stowplan.cel.declarations import FUNCTIONS

_CHECK = "kubernetes.authorization.ResourceCheck"
_DECISION = "kubernetes.authorization.Decision"
_AUTHORIZER = "kubernetes.authorization.Authorizer"

for _name, _overload, _signature in (
    ("path", "authorizer_path", f"{_AUTHORIZER}.(string) -> kubernetes.authorization.PathCheck"),
    ("group", "authorizer_group", f"{_AUTHORIZER}.(string) -> kubernetes.authorization.GroupCheck"),
    (
        "serviceAccount",
        "authorizer_serviceaccount",
        f"{_AUTHORIZER}.(string, string) -> {_AUTHORIZER}",
    ),
    (
        "resource",
        "groupcheck_resource",
        f"kubernetes.authorization.GroupCheck.(string) -> {_CHECK}",
    ),
    ("subresource", "resourcecheck_subresource", f"{_CHECK}.(string) -> {_CHECK}"),
    ("namespace", "resourcecheck_namespace", f"{_CHECK}.(string) -> {_CHECK}"),
    ("name", "resourcecheck_name", f"{_CHECK}.(string) -> {_CHECK}"),
    ("fieldSelector", "authorizer_fieldselector", f"{_CHECK}.(string) -> {_CHECK}"),
    ("labelSelector", "authorizer_labelselector", f"{_CHECK}.(string) -> {_CHECK}"),
    ("check", "pathcheck_check", f"kubernetes.authorization.PathCheck.(string) -> {_DECISION}"),
    ("check", "resourcecheck_check", f"{_CHECK}.(string) -> {_DECISION}"),
    ("errored", "decision_errored", f"{_DECISION}.() -> bool"),
    ("error", "decision_error", f"{_DECISION}.() -> string"),
    ("allowed", "decision_allowed", f"{_DECISION}.() -> bool"),
    ("reason", "decision_reason", f"{_DECISION}.() -> string"),
):
    FUNCTIONS.declare(_name, _overload, _signature)
