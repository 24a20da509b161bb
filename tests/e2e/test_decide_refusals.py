"""What `stowplan decide` refuses, the real kube-apiserver refuses too, for the same field."""

from __future__ import annotations

import re

import pytest

from stowplan.apiserver.kinds import KINDS
from stowplan.judge import Judge
from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.api_access import ApiError
from tests.unit.judge.malformed import GOOD, MISTAKES, Json, Mistake

pytestmark = pytest.mark.e2e

_KINDS = {(kind.api_version, kind.kind): kind for kind in KINDS}
#: What another plugin of the real server says before validation has its turn.
_SAID_BY_ADMISSION = {"spec.preemptionPolicy": "the string value of PreemptionPolicy"}


def _create(control_plane: ControlPlane, obj: Json) -> str:
    """The server's complaint, if any; nothing is stored."""
    kind = _KINDS[obj["apiVersion"], obj["kind"]]
    namespace = "/namespaces/default" if kind.namespaced else ""
    try:
        control_plane.api.create(f"{kind.prefix}{namespace}/{kind.plural}?dryRun=All", obj)
    except ApiError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", GOOD)
def test_good_objects_are_taken(kind: str, control_plane: ControlPlane) -> None:
    assert _create(control_plane, GOOD[kind]) == ""


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_both_complain_of_the_same(mistake: Mistake, control_plane: ControlPlane) -> None:
    theirs = _create(control_plane, mistake.made())
    if mistake.field in _SAID_BY_ADMISSION:
        assert _SAID_BY_ADMISSION[mistake.field] in theirs
        return
    judge = Judge(strict=True)
    ours = judge.answer({"objects": [mistake.made()], "pod": GOOD["Pod"]})["error"]
    problems = ours.split(": ", 2)[2].split("; ")
    # Our path has indexes where Go's decoder names none, and is right where theirs has a slip.
    texts = [problem.partition(": ")[2] for problem in problems]
    missing = [text for text in texts if _plain(text) not in _plain(theirs)]
    assert missing == [], f"not in: {theirs}"


def _plain(text: str) -> str:
    """Without the hint that a name of one kind has, and a name of another has not."""
    return re.sub(r"a lowercase RFC 1123 label must .*|must not contain dots", "bad name", text)
