"""Lessons on the real control plane: what only a real API server can judge is judged by it.

`make lessons-real` tries all of them there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stowplan.learn.course import Course
from stowplan.learn.work_check import check_work
from tests.controlplane_fixtures import require_binaries

pytestmark = pytest.mark.e2e


def test_the_scheduler_runs_with_the_rights_of_its_service_account() -> None:
    """RBAC is enforced there: the program of lesson 4 runs as its own service account."""
    require_binaries("etcd", "kube-apiserver", "kube-controller-manager", "kwok")
    lesson = Course().find("deploy")
    verdict = check_work(lesson, lesson.solution, on="real", language="en")
    assert verdict.mistakes == ()
    assert not any("no RBAC" in note for note in verdict.notes)


def test_a_real_api_server_says_what_is_wrong_with_a_manifest(tmp_path: Path) -> None:
    require_binaries("etcd", "kube-apiserver", "kube-controller-manager", "kwok")
    lesson = Course().find("deploy")
    file = tmp_path / "deploy.yaml"
    file.write_text(
        lesson.solution.read_text().replace("kind: Role\n  name:", "kind: Rule\n  name:")
    )
    verdict = check_work(lesson, file, on="real", language="en")
    [told] = verdict.mistakes
    assert "does not take RoleBinding prgcontsched" in told
    assert "roleRef.kind" in told
