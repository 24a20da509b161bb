"""Profiles that disable one extension point of one plugin.

kube-scheduler's plugins leave notes at PreFilter and PreScore for Filter and Score. Where only the
former is disabled, some of them compute what they need, and some fail the pod: the same ones must
here, in the same words.
"""

from __future__ import annotations

import pytest

from stowplan.config.defaults import DEFAULT_MULTI_POINT
from stowplan.framework.plugin import points_of
from stowplan.plugins.registry import in_tree_registry
from tests.parity.branches import UNPREPARED
from tests.parity.examine import Examiner
from tests.parity.generate.case import line, random_case
from tests.parity.oracle import Oracle
from tests.parity.test_configurations import ours, theirs

pytestmark = pytest.mark.e2e

CASES = 12
_REGISTRY = in_tree_registry()
#: Every plugin of the default profile at every point that it has.
PLACES = [
    (ref.name, point)
    for ref in DEFAULT_MULTI_POINT
    for point in sorted(points_of(_REGISTRY.get(ref.name)))
]


@pytest.mark.parametrize(("plugin", "point"), PLACES)
def test_one_point_disabled(oracle: Oracle, plugin: str, point: str) -> None:
    text = f"profiles: [{{plugins: {{{point}: {{disabled: [{{name: {plugin}}}]}}}}}}]"
    complaint = theirs(oracle, text)
    assert bool(ours(text)) == bool(complaint), (ours(text), complaint)
    if complaint:
        return
    examiner = Examiner(oracle)
    failed = 0
    for number in range(CASES):
        case = random_case(f"{plugin} {point} {number}", plain=True)
        (profile,) = case["config"]["profiles"]
        profile["plugins"][point] = {"disabled": [{"name": plugin}]}
        question = line(case)
        found = examiner.case(question)
        assert found is None, f"{found.difference}\n{examiner.shrink(found).question}"
        (said,) = examiner.answers(question)
        failed += plugin in said.get("error", "")
    assert bool(failed) == ((plugin, point) in UNPREPARED), failed
