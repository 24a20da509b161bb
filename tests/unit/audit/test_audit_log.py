"""Audit logs as API servers leave them: stages, and lines that were never finished."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stowplan.audit import read_audit_log


def line(identity: str, **more: Any) -> str:
    event = {
        "auditID": identity,
        "stage": "ResponseComplete",
        "verb": "create",
        "user": {"username": "kube-scheduler"},
        "requestURI": "/api/v1/namespaces/default/pods/a/binding",
        "objectRef": {"resource": "pods", "subresource": "binding", "name": "a"},
        "responseStatus": {"code": 201},
        "requestReceivedTimestamp": "2026-01-01T00:00:00.500000Z",
        **more,
    }
    return json.dumps(event) + "\n"


def test_a_request_with_two_stages_is_one_request(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text(line("1", stage="ResponseStarted") + line("2") + line("1"))
    assert len(list(read_audit_log(log))) == 2


def test_what_a_binding_says(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    body = {"metadata": {"uid": "u"}, "target": {"name": "n1"}}
    log.write_text(line("1", requestObject=body))
    (found,) = read_audit_log(log)
    assert (found.is_bind, found.succeeded, found.uid, found.node) == (True, True, "u", "n1")
    assert found.received_at == 1767225600.5


def test_lines_of_a_killed_api_server_are_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    whole = line("1")
    log.write_text(whole + whole[:40] + line("2") + line("3") + whole[:40])
    assert len(list(read_audit_log(log))) == 2


def test_from_a_position_on(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text(line("1") + line("2"))
    assert len(list(read_audit_log(log, since=len(line("1"))))) == 1
