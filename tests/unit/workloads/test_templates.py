"""Templates: Go's actions, YAML's types, and what upstream's typed client does to both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from stowplan.errors import ConfigError
from stowplan.workloads.expressions import BadExpression, as_text, parse
from stowplan.workloads.templates import Template


@pytest.fixture
def template(tmp_path: Path) -> Callable[..., Template]:
    def write(text: str, expected: str = "") -> Template:
        file = tmp_path / "template.yaml"
        file.write_text(dedent(text).lstrip())
        return Template(file, expected=expected)

    return write


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        (".Index", "7"),
        (" .Count ", "30"),
        ("Mod .Index 4", "3"),
        ("Mod -7 4", "-3"),
        ("DivideInt .Count 4", "7"),
        ("DivideInt -7 2", "-3"),
        ("DivideFloat .Count 4", "7.5"),
        ("DivideFloat .Count 3", "10"),
        ("AddInt 1 2 .Index", "10"),
        ("AddFloat 0.5 1", "1.5"),
        ("SubtractInt .Count .Index", "23"),
        ("SubtractFloat 1 0.25", "0.75"),
        ("MultiplyInt 2 .Index 2", "28"),
        ("MultiplyFloat 2 .25", "0.5"),
        ('AddInt "3" 4', "7"),
        ("AddInt 100 (Mod .Index (AddInt 2 2))", "103"),
        ("(Mod .Index 4)", "3"),
        ("(.Index)", "7"),
        ("12", "12"),
    ],
)
def test_actions_that_upstream_registers(expression: str, result: str) -> None:
    assert as_text(parse(expression)(7, 30)) == result


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "is empty"),
        (".Name", "`.Name` is not known"),
        ("mod .Index 2", "did you mean `Mod`?"),
        ("if .Index", "`if` is not known"),
        ("Mod .Index", "`Mod` takes 2 arguments, not 1"),
        ("Mod .Index 2 3", "`Mod` takes 2 arguments, not 3"),
        ("Mod (.Index 2", "takes no arguments, or `)` is missing"),
        ("AddInt (Mod .Index 2", "parentheses do not match"),
        ("AddInt 1 )", "parentheses do not match"),
        ("AddInt ()", "is empty"),
        (".Index .Count", "there is something after its end"),
        ("- .Index", "`-` is not known"),
        ('AddInt "x', "cannot be read"),
    ],
)
def test_other_actions_are_refused_in_words(expression: str, message: str) -> None:
    with pytest.raises(BadExpression) as refused:
        parse(expression)
    assert message in str(refused.value)


def test_values_keep_the_types_that_yaml_gives_them_once_filled_in(
    template: Callable[..., Template],
) -> None:
    built = template(
        """
        apiVersion: v1
        kind: Pod
        metadata:
          name: pod-{{ .Index }}
          labels: {quoted: "{{ .Index }}", color: green-{{.Index}}-{{ .Count }}}
        spec:
          priority: {{ .Index }}
          enabled: true
          since: 2024-01-01
          nothing: null
          ports:
          - hostPort: 8{{ Mod .Index 12 }}
          - hostPort: 80
        """
    ).build(7, 30)
    assert built == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod-7", "labels": {"quoted": "7", "color": "green-7-30"}},
        "spec": {
            "priority": 7,
            "enabled": True,
            "since": "2024-01-01",
            "ports": [{"hostPort": 87}, {"hostPort": 80}],
        },
    }


def test_amounts_are_texts_and_keys_may_have_actions(template: Callable[..., Template]) -> None:
    node = template(
        """
        apiVersion: v1
        kind: Node
        status:
          capacity: {cpu: 0.5, pods: 110, "foo.com/bar-{{ .Index }}": 1}
        """
    )
    amounts = [node.build(index, 2)["status"]["capacity"] for index in range(2)]
    assert amounts == [
        {"cpu": "0.5", "pods": "110", "foo.com/bar-0": "1"},
        {"cpu": "0.5", "pods": "110", "foo.com/bar-1": "1"},
    ]


def test_names_of_fields_may_begin_with_a_capital_as_go_allows(
    template: Callable[..., Template],
) -> None:
    pod = template(
        """
        apiVersion: v1
        kind: Pod
        metadata: {labels: {Capital: "1"}}
        spec:
          nodeSelector: {Disk: ssd}
          topologySpreadConstraints:
          - NodeTaintsPolicy: Honor
            labelSelector: {matchLabels: {App: web}}
        """
    ).build(0, 1)
    assert pod["metadata"]["labels"] == {"Capital": "1"}
    assert pod["spec"] == {
        "nodeSelector": {"Disk": "ssd"},
        "topologySpreadConstraints": [
            {"nodeTaintsPolicy": "Honor", "labelSelector": {"matchLabels": {"App": "web"}}}
        ],
    }


def test_other_kinds_are_sent_as_they_are_written(template: Callable[..., Template]) -> None:
    written = template(
        """
        apiVersion: v1
        kind: ResourceQuota
        spec: {hard: {pods: 3}, Odd: null, requests: 1}
        """
    )
    assert written.build(0, 1)["spec"] == {"hard": {"pods": 3}, "Odd": None, "requests": 1}


def test_what_does_not_vary_is_built_once(template: Callable[..., Template]) -> None:
    fixed = template("{apiVersion: v1, kind: Pod, spec: {a: 1}}")
    assert fixed.build(0, 2) is fixed.build(1, 2)
    varying = template(
        "{apiVersion: v1, kind: Pod, metadata: {name: 'p-{{ .Index }}'}, spec: {a: 1}}"
    )
    first, second = varying.build(0, 2), varying.build(1, 2)
    assert first["metadata"] != second["metadata"]
    assert first["spec"] is second["spec"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("apiVersion: v1\nkind: Pod\nname: {{ .Foo }}\n", "template.yaml:3: `.Foo` is not known"),
        ("apiVersion: v1\nkind: {{ .Index\n", "template.yaml:2: `{{` has no `}}`"),
        ("apiVersion: v1\nkind: Pod\na: 1\na: 2\n", "template.yaml:4: `a` is given twice"),
        ("apiVersion: v1\nkind: [\n", "is not YAML"),
        ("- 1\n", "does not describe an object"),
        ("", "does not describe an object"),
        ("kind: Pod\n", "apiVersion and kind must be given"),
        ("apiVersion: v1\nkind: Pod\n? [a]\n: 1\n", "keys must be plain text"),
        ("apiVersion: v1\nkind: Pod\na: &a [*a]\n", "an alias contains itself"),
    ],
)
def test_mistakes_name_file_and_line(
    template: Callable[..., Template], text: str, message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        template(text)
    assert message in str(refused.value)


def test_a_mistake_that_only_some_numbers_show_names_the_number(
    template: Callable[..., Template],
) -> None:
    shaky = template("apiVersion: v1\nkind: Pod\nshare: {{ DivideInt 10 .Index }}\n")
    assert shaky.build(5, 10)["share"] == 2
    with pytest.raises(ConfigError) as refused:
        shaky.build(0, 10)
    assert "template.yaml:3: number 0 of 10: division by zero" in str(refused.value)


def test_the_expected_kind_is_assumed_or_insisted_on(template: Callable[..., Template]) -> None:
    assumed = template("metadata: {labels: {team: devops}}", "Namespace")
    assert (assumed.api_version, assumed.kind) == ("v1", "Namespace")
    with pytest.raises(ConfigError) as refused:
        template("{apiVersion: v1, kind: Node}", "Pod")
    assert "is a Node, not a Pod" in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        Template(tmp_path / "none.yaml")
    assert "none.yaml: cannot be read" in str(refused.value)


def test_an_alias_stands_for_its_anchor(template: Callable[..., Template]) -> None:
    built: dict[str, Any] = template(
        "{apiVersion: v1, kind: Pod, a: &amounts {cpu: '1'}, b: *amounts}"
    ).build(0, 1)
    assert built["a"] == built["b"] == {"cpu": "1"}
