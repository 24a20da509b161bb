"""The roles of deploy/ are those that tools/rbac.py writes from the recorded requests."""

from __future__ import annotations

import pytest
import yaml

from tools.rbac import CLUSTER, INSTALLATIONS, KUBE_SYSTEM, OWN, RULES, Grant, outputs, rules_of


def test_every_file_is_up_to_date() -> None:
    for file, text in outputs().items():
        assert file.read_text() == text, f"{file} differs: run `make rbac`"


def test_templates_get_the_rules_of_the_manifests() -> None:
    rules = yaml.safe_load(RULES.read_text())
    for installation in INSTALLATIONS:
        roles = [
            each["rules"]
            for each in yaml.safe_load_all(installation.file.read_text())
            if each["kind"] in ("Role", "ClusterRole")
        ]
        told = [rules[installation.key][name] for name in ("cluster", "own")]
        assert sorted(map(str, roles)) == sorted(str(each) for each in told if each)


def test_equal_verbs_share_a_rule_and_names_are_kept() -> None:
    rules = rules_of(
        [
            Grant(CLUSTER, "", "nodes", "list"),
            Grant(CLUSTER, "", "pods", "list"),
            Grant(CLUSTER, "", "pods/binding", "create"),
            Grant(CLUSTER, "authorization.k8s.io", "selfsubjectaccessreviews", "create"),
            Grant(CLUSTER, "authentication.k8s.io", "tokenreviews", "create"),
            Grant(OWN, "coordination.k8s.io", "leases", "create", "mine"),
            Grant(OWN, "coordination.k8s.io", "leases", "get", "mine"),
        ]
    )
    assert rules.cluster == [
        {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
    ]
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    assert rules.own == [
        {**leases, "verbs": ["create"]},
        {**leases, "resourceNames": ["mine"], "verbs": ["get"]},
    ]
    assert rules.built_in == ["system:auth-delegator"]


def test_a_request_that_no_role_can_grant_is_one_line() -> None:
    with pytest.raises(SystemExit, match=r"Error: no role of this tool grants .*secrets"):
        rules_of([Grant(KUBE_SYSTEM, "", "secrets", "get")])
