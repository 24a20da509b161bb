"""The benchmark of `explain` on a tiny cluster of the real API server: what it plays."""

from __future__ import annotations

import pytest

from stowplan.lab.bench.explain import main, manifests
from tests.controlplane_fixtures import require_binaries

pytestmark = pytest.mark.e2e


def test_all_three_ways_to_ask_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    require_binaries("etcd", "kube-apiserver")
    assert main(["--nodes", "3", "--pods", "5", "--times", "1"]) == 0
    first, heads, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith("3 nodes, 5 pods; load ")
    assert heads.split() == ["best", "median", "CPU", "wanted"]
    assert [line[:42].strip() for line in lines] == [
        "explain POD, from cold",
        "the running scheduler's answer",
        "explain POD --server, start included",
    ]
    assert [line.split()[-2:] for line in lines] == [["3000", "ms"], ["50", "ms"], ["600", "ms"]]


def test_the_pending_pod_comes_last_and_fits_on_no_node() -> None:
    made = [body for _, body in manifests(3, 5)]
    assert [bool(each["spec"].get("nodeName")) for each in made[3:]] == [True] * 5 + [False]
    with pytest.raises(SystemExit):
        main(["--nodes", "0"])
