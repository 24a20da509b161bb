"""The extender's configuration file: the WCA scheduler's own as a whole, and mistakes in files."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from stowplan.errors import ConfigError
from stowplan.extender.algorithms import Fit, NOPAlgorithm
from stowplan.extender.cluster_data import ClusterDataProvider
from stowplan.extender.configuration import load
from stowplan.extender.data import Resource

from .configuration_kit import OWN, Load, problem_of
from .shapes_of_arguments import Everything

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
            "config.yaml: line 2, column 2: did not find expected ',' or ']'",
        ),
        (
            "algorithm: !NOPAlgorithm\n---\na: 1\n",
            "config.yaml: line 2, column 1: expected a single document, but found another document",
        ),
        ("a: *b\n", "config.yaml: line 1, column 4: unknown anchor 'b' referenced"),
        ("a: 1\nb: 2\na: 3\n", "duplicate key 'a' in \"config.yaml\", line 3, column 1"),
        (
            "algorithm: !NOPAlgorithm {data_provider: null, data_provider: null}\n",
            "duplicate key 'data_provider' in \"config.yaml\", line 1, column 48",
        ),
        (
            "algorithm: &a !Fit {data_provider: *a}\n",
            "config.yaml: line 1, column 36: an alias contains itself: anchor 'a'",
        ),
        ("algorithm: !NOPAlgorithm\nx: {[]: 1}\n",
         'found unhashable key in "config.yaml", line 2, column 5'),
        ("a: !!int x\n", "'x' is not a valid int in \"config.yaml\", line 1, column 4"),
        ("a: 2020-99-99\n",
         "'2020-99-99' is not a valid timestamp in \"config.yaml\", line 1, column 4"),
        (
            "a: " + 1000 * "[",
            "config.yaml: line 1, column 103: is nested too deeply: more than 100 levels",
        ),
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
        "config.yaml: line 1, column 12: unacceptable character #x0000"
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
    assert "stand for more than 100,000 values" in problem_of(load_text, "\n".join(lines))
    # The same with lists, although nothing uses them.
    lines = ["algorithm: !NOPAlgorithm", "a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    problem = problem_of(load_text, "\n".join(lines))
    assert "stand for more than 100,000 values" in problem
    assert len(problem) < 1000
