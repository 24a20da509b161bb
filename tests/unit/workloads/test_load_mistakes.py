"""Mistakes in workload files are refused with the file, test, workload and operation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stowplan.errors import ConfigError
from stowplan.workloads.load import read_workloads
from stowplan.workloads.model import (
    Workload,
)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ("{opcode: createPod, count: 1}", "unknown opcode `createPod`; did you mean createPods?"),
        ("{count: 1}", "unknown opcode ``; known are createNodes, "),
        ("just text", "expected a mapping, got a text"),
        ("{opcode: createPods, counts: 1}", "unknown field `counts`; did you mean `count`?"),
        ("{opcode: createPods, count: 1, Count: 1}", "`count` is given twice"),
        ("{opcode: createPods, count: -1}", "it cannot be negative"),
        ("{opcode: createPods, count: many}", "`count`: expected a whole number, got a text"),
        ("{opcode: createPods, countParam: pods}", "begins with $, unlike `pods`"),
        ("{opcode: createPods, countParam: $pods}", "parameter $pods is not defined"),
        ("{opcode: createPods, countParam: $text}", "must be a number"),
        ("{opcode: createPods, podTemplatePath: no.yaml}", "no.yaml: cannot be read"),
        ("{opcode: createPods, podTemplatePath: node.yaml}", "is a Node, not a Pod"),
        (
            "{opcode: createPods, collectMetrics: true, skipWaitToCompletion: true}",
            "collectMetrics and skipWaitToCompletion cannot both be true",
        ),
        (
            "{opcode: createPods, persistentVolumeTemplatePath: volume.yaml}",
            "`persistentVolumeClaimTemplatePath` must be given",
        ),
        ("{opcode: createPods, steadyState: true}", "a steady state needs a duration"),
        ("{opcode: createPods, steadyState: true, duration: 10}", "expected a text"),
        ("{opcode: createPods, steadyState: true, duration: soon}", "`soon` is not a duration"),
        (
            "{opcode: createPods, steadyState: true, duration: 1s, skipWaitToCompletion: true}",
            "skipWaitToCompletion and steadyState cannot both be true",
        ),
        (
            "{opcode: createPods, steadyState: true, duration: 1s, "
            "podTemplatePath: numbered-pod.yaml}",
            "needs pods with generateName",
        ),
        ("{opcode: createPods, steadyStateParam: $text}", "must be true or false"),
        ("{opcode: createPodSets, count: 1, namespacePrefix: a}", "`createPodsOp` must be given"),
        (
            "{opcode: createNodes, nodeAllocatableStrategy: {csiNodeAllocatable: {d: {count: x}}}}",
            "`count` must be a whole number",
        ),
        ("{opcode: createNamespaces, count: 1}", "`prefix` must be given"),
        ("{opcode: createAny}", "`templatePath` must be given"),
        ("{opcode: createAny, templatePath: service.yaml}", "a Service needs a namespace"),
        (
            "{opcode: createAny, templatePath: node.yaml, namespace: a}",
            "a Node is in no namespace",
        ),
        ("{opcode: updateAny, templatePath: node.yaml}", "metadata.name must say what to update"),
        (
            "{opcode: updateAny, templatePath: numbered-pod.yaml, namespace: a, "
            "subresources: [resize, status]}",
            "one subresource at a time",
        ),
        ("{opcode: deletePods}", "`namespace` must be given"),
        ("{opcode: churn, mode: often, templatePaths: [pod.yaml]}", "one of create, recreate"),
        ("{opcode: churn, mode: recreate, templatePaths: [pod.yaml]}", "`number` cannot be 0"),
        ("{opcode: churn, mode: create}", "`templatePaths` must be given"),
        ("{opcode: barrier, stageRequirement: Done}", "must be one of Scheduled, Attempted"),
        ("{opcode: barrier, labelSelector: {app: 1}}", "`labelSelector.app`: expected a text"),
        ("{opcode: sleep, durationParam: $text}", "`none` is not a duration"),
        ("{opcode: startCollectingMetrics}", "`namespaces` must be given"),
        ("{opcode: stopCollectingMetrics}", "there is no startCollectingMetrics before it"),
        (
            "{opcode: createNodes, labelNodePrepareStrategy: {labelKey: a}}",
            "`labelValues` must be given",
        ),
    ],
)
def test_mistakes_in_operations_name_file_test_workload_and_operation(
    read: Callable[..., Workload], operation: str, message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read(f"- {{opcode: sleep, duration: 1s}}\n- {operation}", params="{text: none}")
    told = str(refused.value)
    assert message in told
    assert "performance-config.yaml" in told
    assert "test Test, workload one" in told
    assert "operation 1" in told


def test_a_mistake_in_a_template_names_both_files(
    read: Callable[..., Workload], folder: Path
) -> None:
    (folder / "odd.yaml").write_text("apiVersion: example.com/v1\nkind: Odd\nmetadata: {name: a}\n")
    with pytest.raises(ConfigError) as refused:
        read("- {opcode: churn, mode: create, templatePaths: [odd.yaml]}")
    told = str(refused.value)
    assert "performance-config.yaml:3: test Test, workload one, operation 0 (churn)" in told
    assert "odd.yaml: kind Odd of example.com/v1 is not known; known: " in told


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        (
            "- {opcode: startCollectingMetrics, namespaces: [a]}\n"
            "- {opcode: createPods, count: 1, collectMetrics: true}",
            "metrics are being collected already",
        ),
        ("- {opcode: startCollectingMetrics, namespaces: [a]}", "is never stopped"),
    ],
)
def test_measuring_twice_or_for_ever_is_refused(
    read: Callable[..., Workload], operations: str, message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read(operations)
    assert message in str(refused.value)


def test_a_parameter_that_no_operation_uses_is_refused(read: Callable[..., Workload]) -> None:
    with pytest.raises(ConfigError) as refused:
        read("- {opcode: createPods, count: 1}", params="{podz: 1}")
    assert "parameters that no operation uses: podz" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "expected a list of tests"),
        ("[]", "expected a list of tests"),
        ("- [", "cannot be read"),
        ("- 5", "test 0: expected a mapping, got a whole number (5)"),
        ("- {name: A, wrkloads: []}", "unknown field `wrkloads`; did you mean `workloads`?"),
        ("- {workloads: []}", "`name` must be given"),
        ("- {name: A, name: B}", ":1: cannot be read: `name` is given twice"),
        ("- {name: A, workloads: [{name: x}]}", "test A: `workloadTemplate` must be given"),
        ("- {name: A, workloadTemplate: [{opcode: barrier}]}", "`workloads` must be given"),
        (
            "- {name: A, workloadTemplate: [{opcode: barrier}], workloads: [{name: x}, {name: x}]}",
            "test A, workload x: there is another workload of this name",
        ),
        (
            "- &a {name: A, workloadTemplate: [{opcode: barrier}], workloads: [{name: x}]}\n- *a",
            "test A: there is another test of this name",
        ),
        (
            "- {name: A, workloadTemplate: [{opcode: barrier}], "
            "workloads: [{name: x, threshold: -1}]}",
            "a threshold cannot be negative",
        ),
        (
            "- {name: A, workloadTemplate: [{opcode: barrier}], "
            "workloads: [{name: x, threshold: high}]}",
            "`threshold`: expected a number",
        ),
        (
            "- {name: A, workloadTemplate: [{opcode: barrier}], "
            "workloads: [{name: x, params: {a: [1]}}]}",
            "`params.a`: expected a number or a text",
        ),
        (
            "- {name: A, schedulerConfigPath: no.yaml, workloadTemplate: [{opcode: barrier}], "
            "workloads: [{name: x}]}",
            "schedulerConfigPath: there is no file",
        ),
    ],
)
def test_mistakes_in_the_file_are_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "performance-config.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_workloads(file)
    assert message in str(refused.value)
    assert str(file) in str(refused.value)
