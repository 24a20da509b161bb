"""The extender's configuration file: tags, anchors, types, and every message with its place."""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from stowplan.errors import ConfigError
from stowplan.extender import configuration, loggers
from stowplan.extender.algorithms import Fit, NOPAlgorithm
from stowplan.extender.cluster_data import ClusterDataProvider
from stowplan.extender.configuration import SHIPPED, Configured, apply_loggers, load
from stowplan.extender.data import Resource
from stowplan.extender.tags import Tags

from .shapes_of_arguments import Colour, Everything, Inner, Old

Load = Callable[[str], Configured]
HERE = "tests.unit.extender.shapes_of_arguments"
OWN = f"algorithms: ['{HERE}:Everything', '{HERE}:Inner', '{HERE}:Old', '{HERE}:Fails']\n"


@pytest.fixture
def load_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    monkeypatch.chdir(tmp_path)

    def load_it(text: str) -> Configured:
        Path("config.yaml").write_text(text, encoding="utf-8")
        return load(Path("config.yaml"))

    return load_it


def problem_of(load_text: Load, text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        load_text(text)
    prefix, _, problem = str(raised.value).partition("Cannot load config file! : ")
    assert prefix == ""
    assert "\n" not in problem
    return problem


# The WCA scheduler's own examples

SEED = """\
        loggers:
          scheduler.main: DEBUG
        algorithm: !NOPAlgorithm
          ...
"""


@pytest.mark.parametrize(
    "text",
    [
        SEED,
        textwrap.dedent(SEED),
        # All lines at the margin: then the dots end the document.
        "loggers:\n  scheduler.main: DEBUG\nalgorithm: !NOPAlgorithm\n...\n",
        "loggers:\n  scheduler.main: DEBUG\nalgorithm: !NOPAlgorithm\n",
        "loggers:\n  scheduler.main: DEBUG\nalgorithm: !NOPAlgorithm {}\n",
        '{"loggers": {"scheduler.main": "debug"}, "algorithm": !NOPAlgorithm }',
    ],
)
def test_the_seeds_own_example(
    load_text: Load, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    configured = load_text(text)
    assert isinstance(configured.algorithm, NOPAlgorithm)
    assert configured.loggers == {"scheduler.main": "DEBUG"}
    assert configured.settings.monitored_namespaces == ()
    assert caplog.records == []


WCA_EXAMPLE = """\
loggers:
  wca: DEBUG
  wca.scheduler.server: INFO
  wca.scheduler.algorithms: TRACE
  wca.scheduler.data_providers: DEBUG

kubeapi: &kubeapi !Kubeapi
  host: !Env KUBERNETES_SERVICE_HOST
  port: !Env KUBERNETES_SERVICE_PORT
monitored_namespaces: [ 'default' ]
data_provider: &data_provider !ClusterDataProvider
  kubeapi: *kubeapi
  prometheus: !Prometheus
    host: http://prometheus.prometheus.svc.cluster.local
    port: 9090
    timeout: 5.0
  queries: !Queries
    APP_REQUESTED_RESOURCES_QUERY_MAP:
      cpu: 'app_req{dim="cpu"}'
      mem: 'app_req{dim="mem"}'
      wss: 'app_req{dim="wss"}'
    NODE_CAPACITY_RESOURCES_QUERY_MAP:
      wss: 'node_capacity{dim="wss"}'
algorithm: !Fit
  dimensions:
    - mem
    - cpu
    - wss
  data_provider: *data_provider
reschedule_interval: 30
dram_threshold: 80
"""


async def test_a_whole_configuration_of_the_wca_scheduler(
    load_text: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    (tmp_path / "token").write_text("t", encoding="utf-8")
    text = WCA_EXAMPLE.replace(
        "monitored_namespaces",
        f"  client_token_path: {tmp_path / 'token'}\n"
        "  server_cert_ca_path: null\n"
        "monitored_namespaces",
    )
    configured = load_text(text)
    algorithm, settings = configured.algorithm, configured.settings
    assert isinstance(algorithm, Fit)
    assert algorithm.dimensions == [Resource.MEM, Resource.CPU, Resource.WSS]
    # An alias is the object itself.
    assert isinstance(algorithm.data_provider, ClusterDataProvider)
    assert algorithm.data_provider is settings.data_provider
    assert algorithm.data_provider.kubeapi is settings.kubeapi
    assert settings.monitored_namespaces == ("default",)
    assert (settings.reschedule_interval, settings.dram_threshold) == (30, 80)
    names = [type(part).__name__ for part in configured.parts]
    assert names == ["Kubeapi", "Prometheus", "Queries", "ClusterDataProvider", "Fit"]


def test_a_kubeapi_that_is_none(load_text: Load) -> None:
    assert problem_of(load_text, "algorithm: !NOPAlgorithm\nkubeapi: here\n") == (
        "Invalid value 'here' in \"config.yaml\", line 2, column 10 for field 'kubeapi': "
        "improper type (got=text expected=Kubeapi)!"
    )


# Tags


def test_every_tag_that_is_shipped_is_there() -> None:
    tags = Tags(SHIPPED)
    for name in SHIPPED:
        assert isinstance(tags.get(name), type), name
    assert tags.get("os.system") is None


AVAILABLE = ". Available tags are: !BAR, !ClusterDataProvider, "


@pytest.mark.parametrize(
    ("text", "tag", "place"),
    [
        ("algorithm: !Foo {}\n", "!Foo", "line 1, column 12"),
        ("a: 1\nalgorithm: !Fit\n  data_provider: !os.system ls\n", "!os.system",
         "line 3, column 18"),
        (
            "algorithm: !!python/object/apply:os.system ['touch owned']\n",
            "tag:yaml.org,2002:python/object/apply:os.system",
            "line 1, column 12",
        ),
        (
            "algorithm: !!python/object/new:os.system ['touch owned']\n",
            "tag:yaml.org,2002:python/object/new:os.system",
            "line 1, column 12",
        ),
        (
            "x: !!python/name:os.system\nalgorithm: !NOPAlgorithm\n",
            "tag:yaml.org,2002:python/name:os.system",
            "line 1, column 4",
        ),
        (
            "x: [1, {y: !!python/module:antigravity ''}]\nalgorithm: !NOPAlgorithm\n",
            "tag:yaml.org,2002:python/module:antigravity",
            "line 1, column 12",
        ),
        (
            "? !!python/object/apply:os.system ['touch owned']\n: 1\n",
            "tag:yaml.org,2002:python/object/apply:os.system",
            "line 1, column 3",
        ),
        ("algorithms: [!Foo x]\nalgorithm: !NOPAlgorithm\n", "!Foo", "line 1, column 14"),
        # Classes that are imported here, but not registered.
        ("algorithm: !Path /\n", "!Path", "line 1, column 12"),
        ("algorithm: !Algorithm {}\n", "!Algorithm", "line 1, column 12"),
        ("algorithm: !stowplan.extender.algorithms.fit:Fit {}\n",
         "!stowplan.extender.algorithms.fit:Fit", "line 1, column 12"),
    ],
)  # fmt: skip
def test_other_tags_are_refused(
    load_text: Load, tmp_path: Path, text: str, tag: str, place: str
) -> None:
    problem = problem_of(load_text, text)
    expected = f'could not determine a constructor for the tag {tag!r} in "config.yaml", {place}'
    assert problem.startswith(expected + AVAILABLE)
    assert not (tmp_path / "owned").exists()


def test_env(load_text: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TEXT", "hello")
    monkeypatch.setenv("SOME_NUMBER", "31800")
    monkeypatch.setenv("SOME_FLAG", "true")
    monkeypatch.delenv("SURELY_UNSET", raising=False)
    built = everything(
        load_text,
        "{text: !Env SOME_TEXT, whole: !Env SOME_NUMBER, flag: !Env SOME_FLAG, "
        "whatever: [!Env SURELY_UNSET, !Env SOME_NUMBER]}",
    )
    # Text stays text where text is wanted; elsewhere it is what it would be in the file.
    assert (built.text, built.whole, built.flag) == ("hello", 31800, True)
    assert built.whatever == ["", "31800"]


def test_what_an_environment_variable_holds_is_not_shown(
    load_text: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    problem = problem_of(load_text, OWN + "algorithm: !Everything {whole: !Env SECRET}\n")
    assert problem == (
        "Invalid value !Env SECRET in \"config.yaml\", line 2, column 32 for field 'whole' in "
        "class 'Everything': improper type (got=text expected=a whole number)!"
    )
    problem = problem_of(load_text, OWN + "algorithm: !Fails {how: value, wrong: !Env SECRET}\n")
    assert "hunter2" not in problem
    assert "with arguments={'how': 'value', 'wrong': !Env SECRET}" in problem
    problem = problem_of(load_text, OWN + "algorithm: !Everything {text: !Env [SECRET]}\n")
    assert problem == '!Env takes a name in "config.yaml", line 2, column 31'


# Types of arguments


def everything(load_text: Load, fields: str) -> Everything:
    built = load_text(f"{OWN}algorithm: !Everything {fields}\n").algorithm
    assert isinstance(built, Everything)
    return built


def test_arguments_become_what_the_annotation_says(load_text: Load) -> None:
    built = everything(
        load_text,
        "{text: x, whole: 3, number: 2, flag: yes, names: [a, b], pair: [a], plain_list: [1, x], "
        "dimensions: [cpu, membw_read], weights: {cpu: 1, mem: 0.5}, table: {n: {a: 1}}, "
        "colour: 2, maybe: null, either: [1], choice: b, limited: 60, path: /tmp, "
        "inner: &i !Inner {name: y}, inners: [*i, !Inner , !Inner ], whatever: {a: [1]}}",
    )
    inner = Inner("y")
    assert built == Everything(
        "x", 3, 2, True, ["a", "b"], ("a",), [1, "x"],
        [Resource.CPU, Resource.MEMBW_READ], {Resource.CPU: 1, Resource.MEM: 0.5},
        {"n": {"a": 1}}, Colour.BLUE, None, [1], "b", 60, Path("/tmp"), inner,
        [inner, Inner(), Inner()], {"a": [1]},
    )  # fmt: skip
    assert built.inner is built.inners[0]
    assert all(isinstance(each, Resource) for each in built.dimensions)


@pytest.mark.parametrize(
    ("field", "value", "shown", "problem"),
    [
        ("text", "1", "1", "improper type (got=a whole number expected=text)!"),
        ("text", "null", "None", "improper type (got=nothing expected=text)!"),
        ("whole", "1.5", "1.5", "improper type (got=a number expected=a whole number)!"),
        ("whole", "true", "True", "improper type (got=true or false expected=a whole number)!"),
        ("number", "x", "'x'", "improper type (got=text expected=a number)!"),
        ("number", "true", "True", "improper type (got=true or false expected=a number)!"),
        ("number", ".nan", "nan", "improper type (got=a number expected=a number)!"),
        ("flag", "1", "1", "improper type (got=a whole number expected=true or false)!"),
        ("names", "a", "'a'", "improper type (got=text expected=a list)!"),
        ("names", "{}", "{}", "improper type (got=a mapping expected=a list)!"),
        (
            "names", "[a, 2]", "['a', 2]",
            "invalid item in list at index 1: improper type (got=a whole number expected=text)!",
        ),
        (
            "dimensions", "[cpu, gpu]", "['cpu', 'gpu']",
            "invalid item in list at index 1: improper value from enum kind (got='gpu' allowed="
            "['cpu', 'mem', 'membw_read', 'membw_write', 'wss', 'membw', 'membw_flat'])!",
        ),
        ("weights", "[1]", "[1]", "improper type (got=a list expected=a mapping)!"),
        (
            "weights", "{gpu: 1}", "{'gpu': 1}",
            "Invalid key='gpu' in dict: improper value from enum kind (got='gpu' allowed="
            "['cpu', 'mem', 'membw_read', 'membw_write', 'wss', 'membw', 'membw_flat'])!",
        ),
        (
            "weights", "{cpu: much}", "{'cpu': 'much'}",
            "invalid value 'much' in dict at key 'cpu': "
            "improper type (got=text expected=a number)!",
        ),
        (
            "table", "{n: {a: x}}", "{'n': {'a': 'x'}}",
            "invalid value {'a': 'x'} in dict at key 'n': invalid value 'x' in dict at key 'a': "
            "improper type (got=text expected=a whole number)!",
        ),
        ("colour", "green", "'green'",
         "improper value from enum kind (got='green' allowed=['red', 2])!"),
        ("maybe", "x", "'x'", "improper type (got=text expected=a number)!"),
        ("either", "x", "'x'", "improper type (got=text expected=a whole number)!; "
         "or improper type (got=text expected=a list)!"),
        ("choice", "c", "'c'", "improper type (got=text expected=one of 'a', 'b')!"),
        ("limited", "0", "0", "Minimum value is 1. Got 0."),
        ("limited", "60.5", "60.5", "Maximum value is 60. Got 60.5."),
        ("limited", "x", "'x'", "improper type (got=text expected=a number)!"),
        ("inner", "x", "'x'", "improper type (got=text expected=Inner)!"),
        ("inner", "!Old ", "!Old", "improper type (got=Old expected=Inner)!"),
    ],
)  # fmt: skip
def test_arguments_of_the_wrong_type(
    load_text: Load, field: str, value: str, shown: str, problem: str
) -> None:
    text = f"{OWN}algorithm: !Everything\n  {field}:   {value}\n"
    column = len(field) + 7
    assert problem_of(load_text, text) == (
        f'Invalid value {shown} in "config.yaml", line 3, column {column} '
        f"for field {field!r} in class 'Everything': {problem}"
    )


def test_arguments_without_annotations_are_taken_as_they_are(load_text: Load) -> None:
    old = load_text(OWN + "algorithm: !Old {plain: [1], typed: x, other: {a: 1}}\n").algorithm
    assert isinstance(old, Old)
    assert old.given == ([1], "x", {"other": {"a": 1}})


SIGNATURE = "(constructor signature is: (how: str = '', limit: int = 0)): "


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            "{hwo: x}",
            "Cannot instantiate 'Fails' in \"config.yaml\", line 2, column 25 with "
            f"arguments={{'hwo': 'x'}} {SIGNATURE}it has no field 'hwo'; did you mean 'how'?",
        ),
        (
            "{1: x}",
            "Cannot instantiate 'Fails' in \"config.yaml\", line 2, column 23 with "
            f"arguments={{'1': 'x'}} {SIGNATURE}it has no field '1'",
        ),
        (
            "{how: config}",
            "Cannot instantiate 'Fails' in \"config.yaml\", line 2, column 12 with "
            f"arguments={{'how': 'config'}} {SIGNATURE}it cannot be so",
        ),
        (
            "{how: value}",
            "Cannot instantiate 'Fails' in \"config.yaml\", line 2, column 12 with "
            f"arguments={{'how': 'value'}} {SIGNATURE}no such luck",
        ),
        (
            "{how: silent}",
            "Cannot instantiate 'Fails' in \"config.yaml\", line 2, column 12 with "
            f"arguments={{'how': 'silent'}} {SIGNATURE}KeyError",
        ),
        (
            "[x]",
            "Cannot instantiate 'Fails' in \"config.yaml\", line 2, column 12 with "
            f"arguments={{}} {SIGNATURE}it takes fields, not a list",
        ),
        # A constructor that says which field is wrong.
        (
            "{how: field, limit: 3}",
            "Invalid value 3 in \"config.yaml\", line 2, column 39 for field 'limit' in class "
            "'Fails': 3 is too few",
        ),
    ],
)
def test_what_constructors_refuse(load_text: Load, fields: str, problem: str) -> None:
    assert problem_of(load_text, f"{OWN}algorithm: !Fails {fields}\n") == problem


def test_a_missing_argument(load_text: Load) -> None:
    problem = problem_of(load_text, "algorithm: !StaticAssigner\n  alias: x\n")
    assert problem.startswith(
        "Cannot instantiate 'StaticAssigner' in \"config.yaml\", line 1, column 12 with "
        "arguments={'alias': 'x'} (constructor signature is: (data_provider: DataProvider, "
    )
    assert problem.endswith(": it needs 'data_provider', 'targeted_assigned_apps_counts'")


def test_a_value_that_no_class_takes_is_warned_about(
    load_text: Load, caplog: pytest.LogCaptureFixture
) -> None:
    load_text("algorithm: !NOPAlgorithm please\n")
    [warning] = caplog.records
    assert warning.__dict__["kv"] == {
        "value": "please",
        "tag": "!NOPAlgorithm",
        "where": 'in "config.yaml", line 1, column 12',
    }


# The file as a whole


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path / "none.yaml")
    path = str(tmp_path / "none.yaml")
    assert (
        str(raised.value) == f"Cannot load config file! : Cannot find configuration file: {path!r}"
    )
    assert raised.value.exit_code == 2
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path)
    (tmp_path / "latin").write_bytes(b"algorithm: \xe9")
    with pytest.raises(ConfigError, match="is not UTF-8 text: "):
        load(tmp_path / "latin")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "algorithm: there is none in 'config.yaml'; write for example "
         "algorithm: !NOPAlgorithm"),
        (
            "algorithm: Fit\n",
            "algorithm: 'Fit' is none in \"config.yaml\", line 1, column 12; write for example "
            "algorithm: !NOPAlgorithm",
        ),
        ("- a\n", 'expected fields with values in "config.yaml", line 1, column 1'),
        ("a\n", 'expected fields with values in "config.yaml", line 1, column 1'),
        (
            "algorithm: [1\nb: 2\n",
            "while parsing a flow sequence: expected ',' or ']', but got ':' in \"config.yaml\", "
            "line 2, column 2",
        ),
        (
            "algorithm: !NOPAlgorithm\n---\na: 1\n",
            "expected a single document in the stream: but found another document in "
            '"config.yaml", line 2, column 1',
        ),
        ("a: *b\n", "found undefined alias 'b' in \"config.yaml\", line 1, column 4"),
        ("a: 1\nb: 2\na: 3\n", "'a' is there twice in \"config.yaml\", line 3, column 1"),
        (
            "algorithm: !NOPAlgorithm {data_provider: null, data_provider: null}\n",
            "'data_provider' is there twice in \"config.yaml\", line 1, column 48",
        ),
        (
            "algorithm: &a !Fit {data_provider: *a}\n",
            'found unconstructable recursive node in "config.yaml", line 1, column 12',
        ),
        ("algorithm: !NOPAlgorithm\nx: {[]: 1}\n",
         'found unhashable key in "config.yaml", line 2, column 5'),
        ("a: !!int x\n", "'x' is no int in \"config.yaml\", line 1, column 4"),
        ("a: 2020-99-99\n", "'2020-99-99' is no timestamp in \"config.yaml\", line 1, column 4"),
        ("a: " + 1000 * "[", "config.yaml: nested too deeply"),
        (
            "algorithm: !NOPAlgorithm\nreschedule_interval: 61\n",
            "Invalid value 61 in \"config.yaml\", line 2, column 22 for field "
            "'reschedule_interval': Maximum value is 60. Got 61.",
        ),
        (
            "algorithm: !NOPAlgorithm\nmonitored_namespaces: default\n",
            "Invalid value 'default' in \"config.yaml\", line 2, column 23 for field "
            "'monitored_namespaces': improper type (got=text expected=a list)!",
        ),
        (
            "algorithm: !NOPAlgorithm\ndata_provider: !NOPAlgorithm\n",
            "Invalid value <NOPAlgorithm> in \"config.yaml\", line 2, column 16 for field "
            "'data_provider': improper type (got=NOPAlgorithm expected=DataProvider)!",
        ),
        (
            "algorithm: !NOPAlgorithm\nloggers: DEBUG\n",
            "Loggers configuration error: log levels are mapping from logger name to log level! "
            'in "config.yaml", line 2, column 10',
        ),
        (
            "algorithm: !NOPAlgorithm\nloggers: {scheduler.main: LOUD}\n",
            "Loggers configuration error: the level 'LOUD' of 'scheduler.main' is none of TRACE, "
            "DEBUG, INFO, WARNING, WARN, ERROR, CRITICAL, FATAL in \"config.yaml\", line 2, "
            "column 10",
        ),
    ],
)  # fmt: skip
def test_mistakes_in_the_file(load_text: Load, text: str, problem: str) -> None:
    assert problem_of(load_text, text) == problem


def test_control_characters(load_text: Load) -> None:
    assert problem_of(load_text, "algorithm: \x00").startswith(
        "config.yaml: unacceptable character #x0000"
    )


def test_an_unknown_field_is_warned_about(
    load_text: Load, caplog: pytest.LogCaptureFixture
) -> None:
    load_text("algorithm: !NOPAlgorithm\nmonitored_namespace: [a]\nshared: &s {a: 1}\n")
    told = [record.__dict__["kv"] for record in caplog.records]
    assert told == [
        {
            "field": "monitored_namespace",
            "where": 'in "config.yaml", line 2, column 22',
            "hint": "did you mean monitored_namespaces?",
        },
        {
            "field": "shared",
            "where": 'in "config.yaml", line 3, column 9',
            "hint": "nothing reads it",
        },
    ]


def test_fields_can_be_merged(load_text: Load) -> None:
    text = OWN + "x: &shared {text: x, whole: 1}\nalgorithm: !Everything {<<: *shared, whole: 2}\n"
    built = load_text(text).algorithm
    assert isinstance(built, Everything)
    assert (built.text, built.whole) == ("x", 2)


def test_a_file_cannot_blow_up(load_text: Load) -> None:
    # Twice as many fields a line: 2**40 of them at the end, if they were merged.
    lines = ["a0: &a0 {k: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 41)]
    assert "too many fields are merged" in problem_of(load_text, "\n".join(lines))
    # Aliases are not copies, and a message does not show them all.
    lines = ["algorithm: !NOPAlgorithm", "a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    load_text("\n".join(lines))
    problem = problem_of(load_text, "\n".join([*lines, "monitored_namespaces: *a59"]))
    assert len(problem) < 1000


# Algorithms of the user's own


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("mine", "algorithms: 'mine' is not of the form module:Class"),
        (":Class", "algorithms: ':Class' is not of the form module:Class"),
        ("no_such_module:Class", "algorithms: 'no_such_module:Class' cannot be imported"),
        (f"{HERE}:Nobody", f"algorithms: '{HERE}:Nobody' cannot be imported"),
        (f"{HERE}:not_a_class", f"algorithms: '{HERE}:not_a_class'"),
    ],
)
def test_paths_that_lead_nowhere(load_text: Load, path: str, problem: str) -> None:
    told = problem_of(load_text, f"algorithms: ['{path}']\nalgorithm: !NOPAlgorithm\n")
    assert told.startswith(f'{problem} in "config.yaml", line 1, column 13')


def test_paths_are_a_list(load_text: Load) -> None:
    assert problem_of(load_text, "algorithms: a:B\nalgorithm: !NOPAlgorithm\n") == (
        "Invalid value 'a:B' in \"config.yaml\", line 1, column 13 for field 'algorithms': "
        "improper type (got=text expected=a list)!"
    )


def test_a_class_that_is_no_algorithm(load_text: Load) -> None:
    text = f"algorithms: ['{HERE}:NotAnAlgorithm']\nalgorithm: !NotAnAlgorithm\n"
    assert problem_of(load_text, text).startswith("algorithm: <NotAnAlgorithm")


def test_installed_algorithms(load_text: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(group: str) -> Iterator[EntryPoint]:
        yield EntryPoint("everything", points_to, group)

    monkeypatch.setattr(configuration, "entry_points", installed)
    points_to = f"{HERE}:Everything"
    assert isinstance(load_text("algorithm: !Everything\n").algorithm, Everything)
    points_to = "no_such_module:Class"
    assert problem_of(load_text, "algorithm: !NOPAlgorithm\n") == (
        "entry point no_such_module:Class: ModuleNotFoundError: No module named 'no_such_module'"
    )


# Loggers


@pytest.fixture
def levels() -> Iterator[Callable[[str], int]]:
    """Tells the level of a logger; all are put back at the end."""
    before = {
        name: logger.level
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger)
    }
    yield lambda name: logging.getLogger(name).level
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            logger.setLevel(before.get(name, logging.NOTSET))


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("wca", ["stowplan.extender"]),
        ("wca.scheduler", ["stowplan.extender"]),
        ("scheduler.main", ["stowplan.extender.serving", "stowplan.extender.configuration"]),
        ("wca.scheduler.main", ["stowplan.extender.serving"]),
        ("wca.scheduler.server", ["stowplan.extender.service"]),
        ("wca.scheduler.algorithms", ["stowplan.extender.algorithms"]),
        ("scheduler.algorithms.hierbar", ["stowplan.extender.algorithms.hier_bar"]),
        ("wca.scheduler.data_providers", ["stowplan.extender.cluster_data"]),
        ("wca.prometheus", ["stowplan.extender.prometheus"]),
        ("wca.config", ["stowplan.extender.configuration", "stowplan.extender.tags"]),
        ("stowplan.api", ["stowplan.api"]),
    ],
)
def test_names_of_the_wca_scheduler_mean_loggers_of_ours(
    name: str, ours: list[str], levels: Callable[[str], int], caplog: pytest.LogCaptureFixture
) -> None:
    apply_loggers({name: "ERROR"})
    assert [levels(each) for each in ours] == [logging.ERROR] * len(ours)
    assert caplog.records == []


def test_every_name_means_a_module_that_there_is() -> None:
    import importlib.util

    meant = {each for targets in loggers._NAMES.values() for each in targets}
    assert [name for name in meant if importlib.util.find_spec(name) is None] == []


def test_an_unknown_logger_is_set_and_warned_about(
    levels: Callable[[str], int], caplog: pytest.LogCaptureFixture
) -> None:
    apply_loggers({"my.algorithms": "TRACE", "other": "INFO"}, modules=["my.algorithms.odd"])
    # get_logger puts the loggers of other packages below ours.
    assert levels("my.algorithms") == levels("stowplan.my.algorithms") == 9
    apply_loggers({"wca.scheduler.algorithm": "INFO"})
    assert [record.__dict__["kv"] for record in caplog.records] == [
        {"logger": "other", "hint": "did you mean scheduler.main?"},
        {"logger": "wca.scheduler.algorithm", "hint": "did you mean scheduler.algorithms?"},
    ]


def test_levels(levels: Callable[[str], int], load_text: Load) -> None:
    written = "loggers: {wca: trace, scheduler.main: Warn, root: critical}"
    configured = load_text(f"algorithm: !NOPAlgorithm\n{written}\n")
    assert configured.loggers == {"wca": "TRACE", "scheduler.main": "WARN", "root": "CRITICAL"}
    root = logging.getLogger().level
    try:
        apply_loggers(configured.loggers)
        assert logging.getLogger().level == logging.CRITICAL
    finally:
        logging.getLogger().setLevel(root)
    assert levels("stowplan.extender") == 9
    assert levels("stowplan.extender.serving") == logging.WARNING


def test_what_is_annotated_any_may_be_anything(load_text: Load) -> None:
    value: Any = everything(load_text, "{whatever: 2020-01-01}").whatever
    assert str(value) == "2020-01-01"
