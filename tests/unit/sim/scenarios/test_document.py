"""YAML scenarios: what is read, and what is said of mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from stowplan.errors import ConfigError
from stowplan.sim.scenarios import Options
from stowplan.sim.scenarios.actions import (
    Create,
    Delete,
    Expect,
    ObjectPattern,
    OnNodes,
    Patch,
    PlayTrace,
    PlayWorkload,
    Say,
    Scenario,
    Sleep,
    WaitForQuiet,
    WaitUntil,
)
from stowplan.sim.scenarios.document import is_performance_config, read_scenario
from stowplan.sim.scenarios.files import read_playables
from stowplan.workloads.fields import read_yaml

Read = Callable[[str], Scenario]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(text: str) -> Scenario:
        file = tmp_path / "scenario.yaml"
        file.write_text(text)
        return read_scenario(file)

    return read


def created(read: Read, text: str) -> Create:
    """What `create: <text>` creates."""
    action = read(f"steps:\n- create: {text}\n").steps[0].action
    assert isinstance(action, Create)
    return action


def test_the_top_of_a_scenario(read: Read) -> None:
    scenario = read(
        "name: a name\n"
        "about: |\n  What it shows.\n"
        "seed: 7\n"
        "cluster:\n  nodes: [{name: n1}]\n"
        "steps:\n- sleep: 1m30s\n"
    )
    assert (scenario.name, scenario.about, scenario.seed) == ("a name", "What it shows.", 7)
    assert scenario.scheduling.config is None
    first, second = scenario.steps
    assert (first.number, first.title, first.settle) == (0, "the cluster", True)
    assert isinstance(first.action, Create)
    assert second.action == Sleep(90.0)
    assert (second.number, second.title) == (1, "sleep 90 s")
    assert second.place.line == 8


def test_without_a_name_it_is_called_like_its_file(read: Read) -> None:
    scenario = read("steps: [{sleep: 1}]")
    assert (scenario.name, scenario.seed) == ("scenario", None)


def test_every_verb(read: Read) -> None:
    scenario = read(
        """\
steps:
- create: {pods: [{name: a}]}
- delete: pod/a
- delete: {objects: [pod/shop/a, "node/n*"], gracePeriod: 0s}
- patch: {object: node/n1, with: {spec: {unschedulable: true}}}
- wait: quiet
- wait: {until: {pod: a, on: n1}, timeout: 5s}
- sleep: 2
- say: hello
- cordon: n1
- uncordon: [n1, n2]
- drain: n1
- fail: n1
- recover: n1
- expect: {pod: a, on: n1}
- expect: [{pod: a, on: n1}, {node: n1, holds: 1}]
"""
    )
    actions = [step.action for step in scenario.steps]
    assert actions[1] == Delete((ObjectPattern("Pod", "a"),))
    assert actions[2] == Delete(
        (ObjectPattern("Pod", "a", "shop"), ObjectPattern("Node", "n*")), 0.0
    )
    assert actions[3] == Patch(ObjectPattern("Node", "n1"), {"spec": {"unschedulable": True}})
    assert actions[4] == WaitForQuiet()
    assert isinstance(actions[5], WaitUntil)
    assert actions[5].timeout_s == 5.0
    assert actions[6:8] == [Sleep(2.0), Say("hello")]
    assert actions[8:13] == [
        OnNodes("cordon", ("n1",)),
        OnNodes("uncordon", ("n1", "n2")),
        OnNodes("drain", ("n1",)),
        OnNodes("fail", ("n1",)),
        OnNodes("recover", ("n1",)),
    ]
    assert isinstance(actions[14], Expect)
    assert len(actions[14].all) == 2


def test_steps_that_change_something_wait_for_quiet_unless_told(read: Read) -> None:
    steps = read(
        "steps:\n"
        "- sleep: 1\n"
        "- {sleep: 1, settle: false}\n"
        "- say: x\n"
        "- {say: x, settle: true}\n"
        "- expect: {pod: a, gone: true}\n"
    ).steps
    assert [step.settle for step in steps] == [True, False, False, True, False]


def test_a_step_may_have_a_name(read: Read) -> None:
    (step,) = read("steps:\n- {name: lights out, fail: n1}\n").steps
    assert step.title == "lights out"
    assert str(step.place).endswith("scenario.yaml:2: step 1 (fail)")


def test_a_node_in_short(read: Read) -> None:
    (node,) = created(
        read,
        "{nodes: [{name: n1, cpu: 8, zone: a, taints: ['x=y:NoSchedule', 'z:NoExecute'],"
        " labels: {disk: ssd}, resources: {example.com/gpu: 2}, unschedulable: true,"
        " images: {busy: 5}}]}",
    ).nodes
    assert node["metadata"] == {
        "name": "n1",
        "labels": {
            "kubernetes.io/hostname": "n1",
            "topology.kubernetes.io/zone": "a",
            "disk": "ssd",
        },
    }
    assert node["spec"] == {
        "taints": [
            {"key": "x", "value": "y", "effect": "NoSchedule"},
            {"key": "z", "effect": "NoExecute"},
        ],
        "unschedulable": True,
    }
    offers = {"cpu": "8", "memory": "32Gi", "pods": "110", "example.com/gpu": "2"}
    assert node["status"]["allocatable"] == node["status"]["capacity"] == offers
    assert node["status"]["images"] == [{"names": ["busy"], "sizeBytes": 5}]


def test_many_of_one_kind(read: Read) -> None:
    made = created(
        read,
        "{nodes: [{name: node$i, count: 3, from: 1, zone: [a, b], labels: {number: n$i}}],"
        " pods: [{name: web, count: 2, labels: {me: web-$i}}]}",
    )
    assert [node["metadata"]["name"] for node in made.nodes] == ["node1", "node2", "node3"]
    labels = [node["metadata"]["labels"] for node in made.nodes]
    assert [each["topology.kubernetes.io/zone"] for each in labels] == ["a", "b", "a"]
    assert [each["number"] for each in labels] == ["n1", "n2", "n3"]
    assert [pod["metadata"]["name"] for pod in made.pods] == ["web-0", "web-1"]
    assert [pod["metadata"]["labels"]["me"] for pod in made.pods] == ["web-0", "web-1"]


def test_a_pod_in_short(read: Read) -> None:
    made = created(
        read,
        "{pods: [{name: web, namespace: shop, cpu: 2, memory: 1Gi, requests: {example.com/gpu: 1},"
        " priority: 10, runFor: 1m, gates: [g], claims: [data],"
        " tolerations: ['a=b:NoSchedule', c], nodeSelector: {disk: ssd}}]}",
    )
    (pod,) = made.pods
    assert pod["metadata"] == {
        "name": "web",
        "namespace": "shop",
        "annotations": {"stowplan.io/run-seconds": "60"},
    }
    spec = pod["spec"]
    assert spec["containers"][0]["resources"] == {
        "requests": {"example.com/gpu": "1", "cpu": "2", "memory": "1Gi"},
        "limits": {"example.com/gpu": "1"},
    }
    assert spec["tolerations"] == [
        {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"},
        {"key": "c", "operator": "Exists"},
    ]
    assert spec["schedulingGates"] == [{"name": "g"}]
    assert spec["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert spec["restartPolicy"] == "Never"
    assert (spec["priority"], spec["priorityClassName"]) == (10, "priority-10")


def test_a_pod_may_stand_on_its_node_from_the_start(read: Read) -> None:
    (pod,) = created(read, "{pods: [{name: web, node: n1}]}").pods
    assert pod["spec"]["nodeName"] == "n1"


def test_a_priority_class_is_made_once_for_each_number(read: Read) -> None:
    steps = read(
        "steps:\n"
        "- create: {pods: [{name: a, priority: 10}, {name: b, priority: -5}]}\n"
        "- create: {pods: [{name: c, priority: 10}]}\n"
    ).steps
    first, second = (step.action for step in steps)
    assert isinstance(first, Create)
    assert isinstance(second, Create)
    assert [(each["metadata"]["name"], each["value"]) for each in first.objects] == [
        ("priority-10", 10),
        ("priority-minus-5", -5),
    ]
    assert second.objects == ()


def test_objects_may_be_in_files_of_their_own(read: Read, tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: one}\n---\n"
        "apiVersion: v1\nkind: List\nitems:\n"
        "- {apiVersion: v1, kind: Namespace, metadata: {name: two}}\n---\n"
    )
    made = created(read, "{objects: [more.yaml]}")
    assert [each["metadata"]["name"] for each in made.objects] == ["one", "two"]


def test_a_file_beside_it_is_named_in_its_mistakes(read: Read, tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: One\n")
    with pytest.raises(ConfigError, match=r"more\.yaml:4: .*object 0, Namespace: metadata\.name"):
        created(read, "{objects: [more.yaml]}")


def test_a_configuration_in_line_or_in_a_file(read: Read, tmp_path: Path) -> None:
    inline = read("config: {profiles: [{schedulerName: mine}]}\nsteps: [{sleep: 1}]")
    assert inline.scheduling.config is not None
    assert inline.scheduling.config.profiles[0].scheduler_name == "mine"
    (tmp_path / "config.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: filed}]\n"
    )
    filed = read("config: config.yaml\nsteps: [{sleep: 1}]")
    assert filed.scheduling.config is not None
    assert filed.scheduling.config.profiles[0].scheduler_name == "filed"


def test_plugins_join_the_default_profile(read: Read, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import stowplan\n\n\n@stowplan.filter\ndef picky(pod, node):\n    return True\n"
    )
    scheduling = read("plugins: [NodeNumber, 'mine.py:picky']\nsteps: [{sleep: 1}]").scheduling
    assert "picky" in scheduling.registry.names
    assert scheduling.config is not None
    enabled = scheduling.config.profiles[0].plugins.multi_point.enabled
    assert [each.name for each in enabled] == ["NodeNumber", "picky"]


def test_workloads_of_others(read: Read, tmp_path: Path) -> None:
    folder = Path(__file__).parents[4] / "examples" / "workloads"
    (tmp_path / "shop.yaml").symlink_to(folder / "shop.yaml")
    (tmp_path / "templates").symlink_to(folder / "templates")
    step = read("steps:\n- workload: {scheduler_perf: shop.yaml}\n").steps[0]
    assert isinstance(step.action, PlayWorkload)
    assert step.action.workloads
    made_up = read(
        "steps:\n- workload:\n    generate: {preset: small, nodeCount: 3, podCount: 5}\n"
    )
    action = made_up.steps[0].action
    assert isinstance(action, PlayTrace)
    assert (action.trace.nodes, action.trace.pods) == (3, 5)
    assert action.with_seed(3).pods == 5


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("steps: [", "scenario.yaml:2", "cannot be read"),
        ("- 1", "scenario.yaml", "expected a mapping with `steps`"),
        ("name: x", "scenario.yaml:1: scenario", "`steps` must be given"),
        ("stps: []", "scenario.yaml:1: scenario", "unknown field `stps`; did you mean `steps`?"),
        ("seed: -1\nsteps: [{sleep: 1}]", ":1: scenario", "cannot be negative"),
        (
            "steps:\n- sleep: 1\n- creat: {}\n",
            "scenario.yaml:3: step 2",
            "unknown verb `creat`; did you mean `create`? verbs: create, delete, patch, wait,",
        ),
        ("steps:\n- jump: 1\n", ":2: step 1", "unknown verb `jump`; verbs: create, delete"),
        ("steps:\n- {sleep: 1, say: x}\n", ":2: step 1", "one verb, this one has 2: sleep, say"),
        ("steps:\n- {name: x}\n", ":2: step 1", "this one has none"),
        ("steps:\n- 5\n", "step 1", "expected a mapping, got a whole number"),
        ("steps:\n- sleep: soon\n", ":2: step 1 (sleep)", "`soon` is not a duration"),
        ("steps:\n- {sleep: 1, settle: no way}\n", "step 1 (sleep)", "`settle`: expected true"),
        ("steps:\n- create: {}\n", "step 1 (create)", "creates nothing"),
        ("steps:\n- create: {podz: []}\n", ":2: step 1 (create)", "did you mean `pods`?"),
        (
            "steps:\n- create:\n    pods:\n    - name: a\n      cpu: lots\n",
            "scenario.yaml:5: step 1 (create), pods[0], Pod",
            "spec.containers[0].resources.requests[cpu]: quantities must match",
        ),
        (
            "steps:\n- create:\n    pods:\n    - name: a\n      affinty: {}\n",
            "scenario.yaml:5: step 1 (create), pods[0]",
            "unknown field `affinty`; did you mean `affinity`?",
        ),
        (
            "steps:\n- create:\n    pods:\n    - name: a\n      affinity:\n"
            "        podAfinity: {}\n",
            "scenario.yaml:6: step 1 (create), pods[0], Pod",
            "spec.affinity.podAfinity: unknown field",
        ),
        ("steps:\n- create: {pods: [{cpu: 1}]}\n", "pods[0]", "`name` must be given"),
        (
            "steps:\n- create: {pods: [{name: a, priority: high}]}\n",
            "pods[0]",
            "`priority` must be a whole number",
        ),
        (
            "steps:\n- create: {pods: [{name: a, priority: 1, priorityClassName: x}]}\n",
            "pods[0]",
            "`priority` or `priorityClassName`, not both",
        ),
        (
            "steps:\n- create: {pods: [{name: a, cpu: 1, containers: [{name: x}]}]}\n",
            "pods[0]",
            "a pod with `containers`",
        ),
        (
            "cluster:\n  nodes:\n  - name: a\n    taints: [x=y:NoScedule]\nsteps: [{sleep: 1}]\n",
            "scenario.yaml:4: cluster, nodes[0], Node",
            'spec.taints[0].effect: Unsupported value: "NoScedule"',
        ),
        ("steps:\n- create: {nodes: [{name: a, taints: [x]}]}\n", "nodes[0]", "`x` is not a taint"),
        ("steps:\n- create: {nodes: [{name: A}]}\n", "nodes[0], Node", "metadata.name: Invalid"),
        ("steps:\n- create: {objects: [{kind: Pod}]}\n", "objects[0]", "`apiVersion` must be"),
        (
            "steps:\n- create: {objects: [{apiVersion: v1, kind: Pott, metadata: {name: a}}]}\n",
            "objects[0]",
            "there is no kind Pott in v1 here; known: ",
        ),
        ("steps:\n- create: {objects: [none.yaml]}\n", "none.yaml", "cannot be read"),
        ("steps:\n- delete: web\n", ":2: step 1 (delete)", "write kind/name, as in pod/web-0"),
        ("steps:\n- delete: pot/web\n", "step 1 (delete)", "no kind `pot`; did you mean"),
        ("steps:\n- delete: node/a/b\n", "step 1 (delete)", "a Node is in no namespace"),
        ("steps:\n- delete:\n", "step 1 (delete)", "write what, as in pod/web-0"),
        ("steps:\n- patch: {object: pod/a}\n", "step 1 (patch)", "`with` must be a part"),
        ("steps:\n- wait: long\n", "step 1 (wait)", "write `wait: quiet` or"),
        ("steps:\n- wait: {timeout: 1s}\n", "step 1 (wait)", "`until` must be given"),
        ("steps:\n- cordon: {}\n", "step 1 (cordon)", "write the name of a node"),
        ("steps:\n- say: 5\n", "step 1 (say)", "`say`: expected a text"),
        ("steps:\n- expect:\n", "step 1 (expect)", "expects nothing"),
        (
            "steps:\n- expect:\n  - {pod: a, on: b}\n  - {pod: a, onn: b}\n",
            "scenario.yaml:4: step 1 (expect), expectation 2",
            "unknown field `onn`; did you mean `on`?",
        ),
        ("steps:\n- workload: {}\n", "step 1 (workload)", "scheduler_perf, trace, generate"),
        ("steps:\n- workload: {trace: none.csv}\n", "none.csv", ""),
        (
            "steps:\n- workload: {generate: {nodz: 1}}\n",
            "scenario.yaml:2",
            "unknown field `nodz`",
        ),
        (
            "config: {profiles: [{plugins: {score: {enabled: [{name: Foo}]}}}]}\n"
            "steps: [{sleep: 1}]\n",
            "scenario.yaml:1: config",
            'profiles[0].plugins.score.enabled[0].name: Invalid value: "Foo": no such plugin',
        ),
        ("config: [1]\nsteps: [{sleep: 1}]", ":1: config", "a file name or a mapping"),
        ("config: none.yaml\nsteps: [{sleep: 1}]", "none.yaml", "cannot be read"),
        ("plugins: [Foo]\nsteps: [{sleep: 1}]", ":1: plugins", "there is no plugin `Foo`"),
        ("plugins: 'a:B'\nsteps: [{sleep: 1}]", ":1: plugins", "expected a list"),
        ("plugins: ['no.such:B']\nsteps: [{sleep: 1}]", ":1: plugins", "no module no.such"),
        ("plugins: ['os:path']\nsteps: [{sleep: 1}]", ":1: plugins", "is not a plugin class"),
        ("plugins: ['os:nothing']\nsteps: [{sleep: 1}]", ":1: plugins", "no nothing in os"),
        ("plugins: ['none.py:B']\nsteps: [{sleep: 1}]", "none.py", "there is no such file"),
    ],
)
def test_mistakes_are_told_with_their_place(
    read: Read, text: str, where: str, message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read(text)
    told = str(refused.value)
    assert where in told
    assert message in told


def test_files_of_scheduler_perf_are_known_by_their_shape(tmp_path: Path) -> None:
    shop = Path(__file__).parents[4] / "examples" / "workloads" / "shop.yaml"
    assert is_performance_config(read_yaml(shop))
    for other in ("[]", "[1]", "- {name: x}", "steps: []"):
        file = tmp_path / "other.yaml"
        file.write_text(other)
        assert not is_performance_config(read_yaml(file))


DOCUMENTED = re.findall(
    r"```yaml\n(.*?)```",
    (Path(__file__).parents[4] / "docs" / "scenarios.md").read_text(),
    re.DOTALL,
)


@pytest.mark.parametrize("number", range(len(DOCUMENTED)))
def test_the_documented_scenarios_go_as_they_say(number: int, tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(DOCUMENTED[number])
    (playable,) = read_playables(file)
    outcome = playable.play("virtual", Options())
    assert outcome.is_ok, (outcome.problem, outcome.expectations)


def test_every_verb_is_documented() -> None:
    text = (Path(__file__).parents[4] / "docs" / "scenarios.md").read_text()
    with pytest.raises(ConfigError) as refused:
        read_scenario(Path("x"), {"steps": ["jump"]})
    verbs = str(refused.value).partition("verbs: ")[2].split(", ")
    assert len(verbs) == 13
    for verb in verbs:
        assert f"`{verb}`" in text, verb
