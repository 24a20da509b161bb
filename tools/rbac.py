"""Write the roles of deploy/ from the requests that a test has recorded: `make rbac`.

The record is deploy/rbac/recorded.yaml: everything that a scheduler asks of a kube-apiserver whose
audit log is on (tests/e2e/test_recorded_rights.py). This tool turns it into the roles of
deploy/scheduler and deploy/static, and into deploy/rbac/rules.yaml: the same rules as data, for
templates. Tests fail when the record, the roles and the requests differ.

Every Helm chart below deploy/helm gets a copy of rules.yaml as files/rbac.yaml, because a chart can
include only its own files: `{{ (.Files.Get "files/rbac.yaml" | fromYaml).scheduler.cluster }}`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import yaml

DEPLOY: Final = Path(__file__).parents[1] / "deploy"
RECORD: Final = DEPLOY / "rbac" / "recorded.yaml"
RULES: Final = DEPLOY / "rbac" / "rules.yaml"
CHARTS: Final = DEPLOY / "helm"
#: Where a request was made: in the whole cluster, in the scheduler's own namespace, or here.
CLUSTER, OWN, KUBE_SYSTEM = "cluster", "own", "kube-system"

_EMPTY: Final = '""'
_LICENCE_TO_ASK: Final = "system:basic-user"
_DELEGATOR: Final = "system:auth-delegator"
_READER: Final = "extension-apiserver-authentication-reader"


class Grant(NamedTuple):
    """One verb on one resource, such as `pods/binding`; a name of "" means all objects."""

    scope: str
    group: str
    resource: str
    verb: str
    name: str = ""


#: What roles grant that every cluster has; the first is bound to every authenticated user.
BUILT_IN: Final = {
    Grant(CLUSTER, "authorization.k8s.io", "selfsubjectaccessreviews", "create"): _LICENCE_TO_ASK,
    Grant(CLUSTER, "authentication.k8s.io", "tokenreviews", "create"): _DELEGATOR,
    Grant(CLUSTER, "authorization.k8s.io", "subjectaccessreviews", "create"): _DELEGATOR,
    **{
        Grant(KUBE_SYSTEM, "", "configmaps", verb, "extension-apiserver-authentication"): _READER
        for verb in ("get", "list", "watch")
    },
}


_DEVICES: Final = "resource.k8s.io"
_CLAIM_STATUS, _CLAIM_BINDING = "resourceclaims/status", "resourceclaims/binding"


@dataclass(frozen=True, slots=True)
class Installation:
    """Where an installation's roles go, and what they are called."""

    #: Under which the record has its requests.
    key: str
    file: Path
    account: str
    namespace: str
    label: str
    about: str
    #: Serves one namespace: most rights are those of a Role there.
    is_namespaced: bool = False

    def suffixed(self, name: str) -> str:
        """Names outside of the namespace: installations for several namespaces must not collide."""
        return f"{name}-{self.namespace}" if self.is_namespaced else name


INSTALLATIONS: Final = (
    Installation(
        "scheduler",
        DEPLOY / "scheduler" / "cluster" / "rbac.yaml",
        *("stowplan", "stowplan", "stowplan"),
        about="All that the scheduler of a whole cluster may do.",
    ),
    Installation(
        "namespaced",
        DEPLOY / "scheduler" / "namespaced" / "rbac.yaml",
        *("stowplan", "team-a", "stowplan"),
        about="All that the scheduler of one namespace may do.",
        is_namespaced=True,
    ),
    Installation(
        "static",
        DEPLOY / "static" / "cluster" / "rbac.yaml",
        *("rfscheduler", "rfscheduler", "static-scheduler"),
        about="All that the static scheduler may do.",
    ),
    Installation(
        "respect-node-state",
        DEPLOY / "static" / "respect-node-state" / "rbac.yaml",
        *("rfscheduler", "rfscheduler", "static-scheduler"),
        about="All that the static scheduler may do with --respect-node-state.",
    ),
    Installation(
        "record",
        DEPLOY / "record" / "base" / "rbac.yaml",
        *("stowplan-record", "stowplan-record", "stowplan-record"),
        about="All that the recorder may do.",
    ),
)


# -- the record ------------------------------------------------------------------------------------


def read_record() -> dict[str, set[Grant]]:
    """The recorded requests of each installation."""
    text = yaml.safe_load(RECORD.read_text()) if RECORD.exists() else {}
    return {
        key: {
            Grant(each["scope"], each["group"], each["resource"], verb, each.get("name", ""))
            for each in rights
            for verb in each["verbs"]
        }
        for key, rights in text.items()
    }


def write_record(record: dict[str, set[Grant]]) -> None:
    lines = [
        "# What the schedulers ask of an API server, from kube-apiserver's audit log. `make rbac`",
        "# runs tests/e2e/test_recorded_rights.py to record it, and writes the roles from it.",
    ]
    for key in (each.key for each in INSTALLATIONS if each.key in record):
        lines.append(f"{key}:")
        verbs: dict[tuple[str, str, str, str], list[str]] = {}
        for scope, group, resource, verb, name in sorted(record[key]):
            verbs.setdefault((scope, group, resource, name), []).append(verb)
        for (scope, group, resource, name), asked in verbs.items():
            named = f"name: {name}, " if name else ""
            about = f"scope: {scope}, group: {group or _EMPTY}, resource: {resource}, {named}"
            lines.append(f"- {{{about}verbs: [{', '.join(asked)}]}}")
    RECORD.write_text("\n".join(lines) + "\n")


# -- the roles -------------------------------------------------------------------------------------


class Rules(NamedTuple):
    """The rules that one installation needs, by the role that has them."""

    #: For a ClusterRole: what is in no namespace, and what is needed in all of them.
    cluster: list[dict[str, list[str]]]
    #: For a Role in the scheduler's own namespace.
    own: list[dict[str, list[str]]]
    #: Roles of the cluster that must be bound as well.
    built_in: list[str]


def rules_of(grants: Iterable[Grant]) -> Rules:
    grants = set(grants)
    # Writing allocations into the status of claims takes a second right, which is no request and
    # is asked for in the whole cluster.
    grants |= {
        each._replace(scope=CLUSTER, resource=_CLAIM_BINDING)
        for each in grants
        if (each.group, each.resource) == (_DEVICES, _CLAIM_STATUS)
    }
    built_in = {BUILT_IN[grant] for grant in grants & BUILT_IN.keys()}
    grants -= BUILT_IN.keys()
    stray = [grant for grant in grants if grant.scope == KUBE_SYSTEM]
    if stray:
        sys.exit(f"Error: no role of this tool grants {stray[0]}. Fix: add one to tools/rbac.py.")
    return Rules(
        _rules(grant for grant in grants if grant.scope == CLUSTER),
        _rules(grant for grant in grants if grant.scope == OWN),
        sorted(built_in - {_LICENCE_TO_ASK}),
    )


def _rules(grants: Iterable[Grant]) -> list[dict[str, list[str]]]:
    """As few rules as have these rights and no other."""
    verbs: dict[tuple[str, str, str], set[str]] = {}
    for grant in grants:
        # RBAC cannot limit `create` to a name: the object is not there yet.
        name = "" if grant.verb == "create" else grant.name
        verbs.setdefault((grant.group, grant.resource, name), set()).add(grant.verb)
    resources: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (group, resource, name), granted in sorted(verbs.items()):
        resources.setdefault((group, name, tuple(sorted(granted))), []).append(resource)
    return [
        {"apiGroups": [group], "resources": names}
        | ({"resourceNames": [name]} if name else {})
        | {"verbs": list(granted)}
        for (group, name, granted), names in resources.items()
    ]


def manifest(installation: Installation, grants: Iterable[Grant]) -> str:
    """Roles and bindings of an installation, as YAML."""
    rules, at = rules_of(grants), installation
    parts = []
    if at.is_namespaced:
        parts.append(_pair(at, "Role", at.account, at.namespace, rules.own))
        parts.append(_pair(at, "ClusterRole", f"{at.account}-nodes", "", rules.cluster))
    else:
        parts.append(_pair(at, "ClusterRole", at.account, "", rules.cluster))
        if rules.own:
            comment = "# For leader election. RBAC cannot limit `create` to one lease.\n"
            name = f"{at.account}-leader-election"
            parts.append(comment + _pair(at, "Role", name, at.namespace, rules.own))
    if _DELEGATOR in rules.built_in:
        comment = (
            "# To ask the API server who a client of the HTTPS port is, and what it may read.\n"
        )
        parts.append(comment + _binding(at, f"{at.account}-auth-delegator", "", _DELEGATOR))
    if _READER in rules.built_in:
        comment = "# To know which CAs sign the certificates of clients.\n"
        name = f"{at.account}-authentication-reader"
        parts.append(comment + _binding(at, name, KUBE_SYSTEM, _READER))
    head = f"# {at.about} Written by `make rbac`: do not edit.\n"
    return head + "---\n".join(parts)


def _metadata(at: Installation, name: str, namespace: str) -> str:
    where = f"  namespace: {namespace}\n" if namespace else ""
    return f"metadata:\n  name: {name}\n{where}  labels:\n    app.kubernetes.io/name: {at.label}\n"


def _pair(
    at: Installation, kind: str, name: str, namespace: str, rules: list[dict[str, list[str]]]
) -> str:
    lines = "".join(_rule(rule) for rule in rules)
    role = f"apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\n"
    role += f"{_metadata(at, name, namespace)}rules:\n{lines}"
    return f"{role}---\n{_binding(at, name, namespace, name)}"


def _rule(rule: dict[str, list[str]]) -> str:
    lines = [f"- apiGroups: [{', '.join(group or _EMPTY for group in rule['apiGroups'])}]"]
    lines += [
        f"  {key}: [{', '.join(rule[key])}]"
        for key in ("resources", "resourceNames", "verbs")
        if key in rule
    ]
    return "\n".join(lines) + "\n"


def _binding(at: Installation, name: str, namespace: str, role: str) -> str:
    is_role = bool(namespace)
    if namespace != at.namespace:
        name = at.suffixed(name)
    return (
        "apiVersion: rbac.authorization.k8s.io/v1\n"
        f"kind: {'RoleBinding' if is_role else 'ClusterRoleBinding'}\n"
        f"{_metadata(at, name, namespace)}"
        "roleRef:\n  apiGroup: rbac.authorization.k8s.io\n"
        f"  kind: {'Role' if is_role else 'ClusterRole'}\n  name: {role}\n"
        f"subjects:\n- kind: ServiceAccount\n  name: {at.account}\n  namespace: {at.namespace}\n"
    )


def rules_file(record: dict[str, set[Grant]]) -> str:
    """The rules of all installations, for templates."""
    lines = [
        "# The rules of all roles, for templates. Written by `make rbac`: do not edit.",
        "# `cluster`: for a ClusterRole. `own`: for a Role in the scheduler's own namespace.",
        "# `builtIn`: roles that every cluster has, to be bound as well.",
    ]
    for key, grants in record.items():
        rules = rules_of(grants)
        lines.append(f"{key}:")
        for name, listed in (("cluster", rules.cluster), ("own", rules.own)):
            shown = "".join(_rule(rule) for rule in listed)
            lines.append(f"  {name}:{'' if listed else ' []'}")
            lines += [f"  {line}" for line in shown.splitlines()]
        lines.append(f"  builtIn: [{', '.join(map(_quoted, rules.built_in))}]")
    return "\n".join(lines) + "\n"


def _quoted(word: str) -> str:
    return f'"{word}"' if ":" in word else word


def outputs() -> dict[Path, str]:
    """Every file that the tool writes, with its text."""
    record = read_record()
    ordered = {each.key: record[each.key] for each in INSTALLATIONS}
    files = {each.file: manifest(each, record[each.key]) for each in INSTALLATIONS}
    rules = rules_file(ordered)
    files[RULES] = rules
    for chart in sorted(CHARTS.rglob("Chart.yaml")):
        files[chart.parent / "files" / "rbac.yaml"] = rules
    return files


def main() -> None:
    for file, text in outputs().items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)


if __name__ == "__main__":
    main()
