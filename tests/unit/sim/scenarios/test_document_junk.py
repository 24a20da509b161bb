"""Whatever is written in a scenario's place: it is read, or refused in words."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from stowplan.errors import ConfigError
from stowplan.sim.scenarios.document import read_scenario
from tests.examples import examples

WHOLE: dict[str, Any] = yaml.safe_load("""
name: x
about: words
seed: 3
config: {profiles: [{schedulerName: default-scheduler}]}
plugins: [NodeNumber]
cluster:
  nodes:
  - name: n$i
    count: 2
    from: 1
    cpu: 4
    memory: 1Gi
    pods: 5
    zone: [a, b]
    region: r
    labels: {a: b}
    annotations: {a: b}
    taints: ["a=b:NoSchedule", {key: a, effect: NoExecute}]
    images: {a: 5}
    resources: {example.com/x: 1}
    spec: {podCIDR: 10.0.0.0/24}
    status: {phase: Running}
    unschedulable: true
  objects:
  - apiVersion: v1
    kind: List
    items: [{apiVersion: v1, kind: Namespace, metadata: {name: a}}]
  - {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: a}, value: 4}
steps:
- name: z
  settle: true
  create:
    pods:
    - name: p
      count: 2
      namespace: a
      metadata: {labels: {c: d}, annotations: {e: f}}
      labels: {a: b}
      cpu: 1
      memory: 1Gi
      requests: {example.com/x: 1}
      limits: {cpu: 2}
      priority: 5
      runFor: 5s
      gates: [g]
      claims: [c]
      tolerations: [a, {key: b, operator: Exists}]
      volumes: [{name: v, emptyDir: {}}]
      affinity: {nodeAffinity: {}}
- delete: {objects: [pod/a], gracePeriod: 5s}
- patch: {object: pod/a, with: {a: b}}
- wait: {until: {pod: a, "on": b}, timeout: 5s}
- sleep: 5s
- cordon: [a]
- workload: {generate: {preset: small}}
- expect:
  - pods: {names: [a], labels: {a: b}, namespace: c}
    "on": [a]
    notOn: b
    pending: x
    bound: {atLeast: 1}
    count: 3
    phase: [a]
    nominated: b
    preempted: true
    gone: true
    spread: {over: zone, maxSkew: 1}
    together: zone
    apart: zone
    text: t
  - {node: a, holds: [b], ready: true, unschedulable: false, gone: true}
  - {object: pvc/a/b, has: {a: b}}
""")
JUNK: list[Any] = [None, 5, -1, 1.5, "x", "", True, [], {}, [5], ["x"], {"a": 1}, [{"a": 1}]]


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else ()
    for key, member in enumerate(value) if isinstance(value, list) else inner:
        yield from _places(member, (*path, key))


def _with(path: tuple[Any, ...], junk: Any) -> Any:
    if not path:
        return junk
    changed = copy.deepcopy(WHOLE)
    holder: Any = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = junk
    return changed


def test_the_whole_of_it_is_good(tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump(WHOLE))
    assert len(read_scenario(file).steps) == 9


@given(path=st.sampled_from([*_places(WHOLE)]), junk=st.sampled_from(JUNK))
@examples(250, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_junk_is_refused_in_words(tmp_path: Path, path: tuple[Any, ...], junk: Any) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump(_with(path, junk)))
    try:
        read_scenario(file)
    except ConfigError as refused:
        assert str(refused).startswith(str(tmp_path))  # noqa: PT017 - most junk is refused


@pytest.mark.parametrize(
    "junk", ["\x00", "a: b: c", "? [a]\n: b", "- - -", "!!python/none x", "&a *a"]
)
def test_what_is_no_yaml_is_told(tmp_path: Path, junk: str) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(junk)
    with pytest.raises(ConfigError, match=r"scenario\.yaml"):
        read_scenario(file)
