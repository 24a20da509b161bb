"""All readers of outside bytes, by name. docs/fuzzing.md has the same table for people."""

from __future__ import annotations

import atexit
import gzip
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from itertools import chain, islice
from pathlib import Path
from typing import TypeAlias

import msgspec

from stowplan.api.extender_codec import decode_filter_result, decode_priorities
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.api.objects import LabelSelector, NodeSelector
from stowplan.api.quantity import format_quantity, milli_value
from stowplan.api.selectors import (
    compile_label_selector,
    compile_node_selector,
    parse_field_selector,
    parse_label_selector,
)
from stowplan.audit.audit_log import read_audit_log
from stowplan.audit.etcd import read_history
from stowplan.audit.history import audit_history
from stowplan.audit.live import audit_cluster
from stowplan.audit.sources import read_objects
from stowplan.audit.text import report_text
from stowplan.cel.device import (
    DeviceView,
    SelectorError,
    compile_selector,
    device_value,
    worst_cost,
)
from stowplan.cel.errors import CompileError
from stowplan.cel.values import Value
from stowplan.cli.flag_values import metrics_filter
from stowplan.config.load import as_text, parse_config
from stowplan.config.migrate import migrate_policy
from stowplan.errors import ApiError, ConfigError
from stowplan.explain.sources import read_file
from stowplan.extender import configuration
from stowplan.extender.mutation import Mutator
from stowplan.extender.prometheus import Prometheus, PrometheusDataProviderException
from stowplan.extender.reading import read_args, read_binding_args, read_preemption_args
from stowplan.framework import installed
from stowplan.http.parser import ProtocolError
from stowplan.judge.answers import Judge
from stowplan.judge.configuration import Configuration
from stowplan.judge.documents import documents
from stowplan.learn.progress import LessonProgress
from stowplan.loader.json_text import load_json
from stowplan.loader.malformed import Malformed
from stowplan.loader.yaml_text import load_yaml_all
from stowplan.replay.report import Tally, comparison_line, configuration_of, follow_file
from stowplan.scheduler.ledger_file import read_attempts
from stowplan.sim.faults.script import read_script
from stowplan.sim.results import load as load_run
from stowplan.sim.scenarios.document import read_scenario
from stowplan.sim.sweep.document import read_sweep
from stowplan.sim.traces import load_trace
from stowplan.sim.traces.layout import find_layout
from stowplan.sim.traces.load import load_replay
from stowplan.workloads.load import read_workloads
from tests.fuzzing import answers, sites
from tests.fuzzing.findings import Reader

Gaps: TypeAlias = list[tuple[float, str]]


def find_distributions_once() -> None:
    """Which ones are installed does not depend on inputs, and takes most of the time."""
    vars(configuration)["entry_points"] = cache(entry_points)
    installed._may_be_offered = cache(installed._may_be_offered)


@cache
def _folder() -> Path:
    """For the files of this process; in memory if possible."""
    memory = Path("/dev/shm")
    made = tempfile.mkdtemp("-fuzz", dir=memory if os.access(memory, os.W_OK) else None)
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def _file(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def written(data: bytes) -> object:
        file = _folder() / name
        file.write_bytes(data)
        return read(file)

    return written


def _decide(data: bytes) -> None:
    for each in documents(data.splitlines(keepends=True)):
        Judge().answer_text(each.text, each.number, is_yaml=each.is_yaml)


def _extender_bodies(data: bytes) -> None:
    for read in (
        read_args,
        read_preemption_args,
        read_binding_args,
        decode_priorities,
        lambda body: decode_filter_result(body, names_were_sent=True),
    ):
        try:
            read(data)
        except (ValueError, RecursionError):
            pass
    Mutator(None).answer(data)


def _selectors(data: bytes) -> None:
    text = data.decode("latin-1")
    labels = {"a": "b", "zone": "7", "app.kubernetes.io/name": ""}
    for parse in (parse_label_selector, parse_field_selector):
        try:
            selector = parse(text)
        except ValueError:
            continue
        selector.matches(labels)
        assert parse(str(selector)) == selector, f"{selector} is read otherwise"
    try:
        compile_label_selector(load_json(data, LabelSelector)).matches(labels)
        compile_node_selector(load_json(data, NodeSelector)).matches(labels, "n1")
    except ValueError:
        pass


def _quantity(data: bytes) -> None:
    text = data.decode("latin-1")
    format_quantity(text)
    milli_value(text)


def _policy(data: bytes) -> None:
    migrate_policy(as_text(data, "f"), where="f")


def _audit_objects(data: bytes) -> None:
    found = read_objects("f", data)
    report = audit_cluster(found.items, now=1.7e9, notes=found.notes, unread=found.unread)
    report_text(report)
    msgspec.json.encode(report)


def _audit_log(file: Path) -> None:
    history = answers.history_of_objects()
    report_text(audit_history(history, requests=read_audit_log(file)))


def _trace(file: Path) -> None:
    """Read it, and make what comes first of it."""
    trace = load_trace(file)
    for _ in islice(chain(trace.objects(), trace.events()), 100):
        pass


def _sweep(file: Path) -> None:
    """Read it beside a trace and a scenario that it can name."""
    for name, text in (("trace", "generate: {preset: small}"), ("played", "steps: [{say: hello}]")):
        file.with_name(f"{name}.yaml").write_text(text)
    read_sweep(file)


@cache
def _configuration() -> Configuration:
    return configuration_of(None, None)


def _recording(file: Path) -> None:
    """Read it in all ways. They must refuse the same files, and report the same gaps."""
    found: list[Gaps | None] = []
    for read in (_followed, _observed, _replayed):
        try:
            found.append(read(file))
        except ConfigError:
            found.append(None)
    followed, observed, replayed = found
    if replayed is None:  # a replay needs objects and nodes, too
        replayed = followed
    assert followed == observed == replayed, found


def _followed(file: Path) -> Gaps:
    tally = Tally()
    for comparison in follow_file(file, _configuration(), tally):
        comparison_line(comparison)
    tally.text()
    return tally.gaps


def _observed(file: Path) -> Gaps:
    return [(gap.at, gap.note) for gap in load_run(file).gaps]


def _replayed(file: Path) -> Gaps:
    trace = load_replay(file)
    for _ in chain(trace.objects(), trace.events()):
        pass
    return list(trace.reading.gaps)


def _recorded_lines(data: bytes) -> object:
    return READERS["recording"].read(gzip.compress(data, 1))


@cache
def _device() -> Value:
    attributes: dict[str, object] = {"model": "A100", "x/version": ("version", "1.2.3"), "n": 7}
    return device_value(DeviceView("gpu.example.com", attributes, {"memory": "40Gi"}))


def _cel(data: bytes) -> None:
    expression = data.decode(errors="replace")
    selector = compile_selector(expression)
    worst_cost(expression)
    selector.matches(_device())


def _prometheus(data: bytes) -> None:
    Prometheus("http://127.0.0.1")._read(data)


READERS = {
    # files
    "allow-metric-labels": Reader(
        _file("m.yaml", lambda file: metrics_filter({"allow-metric-labels-manifest": str(file)})),
        "`--allow-metric-labels-manifest`",
    ),
    "audit-history": Reader(
        _file("history.jsonl", lambda file: report_text(audit_history(read_history(file)))),
        "`stowplan audit --history`",
    ),
    "audit-log": Reader(_file("audit.log", _audit_log), "`stowplan audit --audit-log`"),
    "audit-objects": Reader(_audit_objects, "`stowplan audit --filename`"),
    "configuration": Reader(
        lambda data: parse_config(as_text(data, "f"), where="f"), "`--config`, `config check`"
    ),
    "decide": Reader(_decide, "`stowplan decide`: questions in JSON or YAML"),
    "explain": Reader(
        lambda data: read_file("f", data),
        "`stowplan explain -f`: objects, lists, exports of kube-scheduler-simulator",
    ),
    "extender-configuration": Reader(
        _file("extender.yaml", configuration.load), "`stowplan extender --config`"
    ),
    "fault-script": Reader(_file("script.json", read_script), "scripts of fault simulation"),
    "kubeconfig": Reader(
        _file("kubeconfig", lambda file: load_cluster_config(kubeconfig=str(file))),
        "`--kubeconfig`, `KUBECONFIG`",
    ),
    "learn-progress": Reader(
        _file("progress.json", lambda file: LessonProgress(file.parent)), "`stowplan learn`"
    ),
    "ledger": Reader(
        _file("ledger.db", lambda file: read_attempts(str(file), "default/web")),
        "`stowplan explain --ledger`",
    ),
    "policy": Reader(_policy, "`stowplan config migrate`"),
    "recording": Reader(
        _file("recording", _recording), "`stowplan replay`, `compare`: recordings of clusters"
    ),
    "recording-lines": Reader(_recorded_lines, "the same before they are packed by gzip"),
    "scenario": Reader(_file("scenario.yaml", read_scenario), "`stowplan simulate`"),
    "sweep": Reader(_file("sweep.yaml", _sweep), "`stowplan sweep`"),
    "trace-csv": Reader(_file("trace.csv", _trace), "traces in CSV"),
    "trace-gz": Reader(_file("trace.csv.gz", _trace), "traces, packed by gzip"),
    "trace-json": Reader(_file("trace.json", _trace), "exports of kube-scheduler-simulator"),
    "trace-jsonl": Reader(_file("trace.jsonl", _trace), "recordings of a cluster"),
    "trace-layout": Reader(
        _file("layout.yaml", lambda file: find_layout(str(file))), "`columns:` of a CSV trace"
    ),
    "trace-tar": Reader(_file("trace.tar", _trace), "traces in a tar archive"),
    "trace-yaml": Reader(_file("trace.yaml", _trace), "generated traces (`generate:`)"),
    "workload": Reader(
        _file("performance-config.yaml", read_workloads),
        "scheduler_perf files (`bench`, `simulate`)",
    ),
    # text inside of files, objects and URLs
    "cel": Reader(_cel, "selectors of devices (CEL)", (CompileError, SelectorError)),
    "json": Reader(load_json, "every JSON text, by `stowplan.loader`", (Malformed,)),
    "quantity": Reader(_quantity, "amounts in objects and flags", (ValueError,)),
    "selector": Reader(_selectors, "selectors in URLs, flags and objects"),
    "yaml": Reader(load_yaml_all, "every YAML text, by `stowplan.loader`", (Malformed,)),
    # answers of other programs
    "api-answers": Reader(
        answers.single, "the API server: leases, reviews, versions, refusals with Retry-After"
    ),
    "api-list": Reader(
        answers.listed, "lists of the API server, into the cache, the queue and a decision"
    ),
    "etcd": Reader(answers.etcd, "etcd's JSON gateway (`stowplan audit --etcd`)"),
    "exec-plugin": Reader(answers.exec_plugin, "what a credential plugin prints"),
    "extender": Reader(_extender_bodies, "bodies to and from extenders, AdmissionReviews"),
    "prometheus": Reader(_prometheus, "Prometheus's answers", (PrometheusDataProviderException,)),
    "watch": Reader(
        answers.watched, "watches of the API server, into the cache, the queue and a decision"
    ),
    # HTTP
    "http": Reader(answers.http, "heads, chunks and packed bodies of HTTP messages"),
    "server-console": Reader(
        sites.served(sites.console_site), "requests to the console, with the page Try"
    ),
    "server-embedded": Reader(
        sites.embedded_api,
        "requests to the embedded API server: JSON, YAML, protobuf, patches, queries",
        (ApiError, ProtocolError),
    ),
    "server-extender": Reader(
        sites.served(sites.extender_site), "requests to the extender service"
    ),
    "server-scheduler": Reader(
        sites.served(sites.scheduler_site),
        "requests to a scheduler: health, metrics, zpages, explanations, `/v1/decide`",
    ),
}
