"""Reads scheduler_perf files (`performance-config.yaml`) into workloads.

Called by the benchmark and by simulators, before anything is started. Upstream's own files are
found in the Go module cache, where the control-plane tools put them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from stowplan.errors import ConfigError
from stowplan.workloads.fields import Fields, Parameters, read_yaml
from stowplan.workloads.model import Workload
from stowplan.workloads.operations import CannotPlay, Reader, Templates

_FILE_NAME = "performance-config.yaml"
_IN_MODULE = Path("test", "integration", "scheduler_perf")
#: Workloads that an error names.
_NAMED = 3
_METRIC = "SchedulingThroughput"
_TEST_FIELDS = (
    "name",
    "featureGates",
    "metricsCollectorConfig",
    "workloadTemplate",
    "workloads",
    "schedulerConfigPath",
    "defaultPodTemplatePath",
    "labels",
    "defaultThresholdMetricSelector",
)
_WORKLOAD_FIELDS = (
    "name",
    "params",
    "labels",
    "threshold",
    "thresholdMetricSelector",
    "featureGates",
)
_METRIC_FIELDS = ("name", "labels", "dataBucket", "expectLower")


def read_workloads(file: Path) -> list[Workload]:
    """Every workload of the file; ConfigError names file, test, workload and operation.

    Workloads that need a feature gate which Stowplan lacks are listed, and say so in `cannot_play`.
    """
    tests = read_yaml(file)
    if not isinstance(tests, list) or not tests:
        raise ConfigError("expected a list of tests, each with a name", where=str(file))
    templates = Templates(file.parent)
    workloads: list[Workload] = []
    names: set[str] = set()
    for number, written in enumerate(tests):
        test = Fields(file, written, f"test {_name_of(written) or number}", _TEST_FIELDS)
        name = test.required_text("name")
        if name in names:
            test.fail("there is another test of this name")
        names.add(name)
        workloads += _read_test(file, name, test, templates)
    return workloads


def find_performance_config(name_or_path: str) -> Path:
    """A file, or one of upstream's by the name of its folder (`misc`, `affinity`, `volumes`...)."""
    path = Path(name_or_path).expanduser()
    if path.is_dir() and (path / _FILE_NAME).is_file():
        return path / _FILE_NAME
    if path.is_file():
        return path
    looks_like_path = path.suffix in (".yaml", ".yml") or path.is_absolute()
    if looks_like_path:
        raise ConfigError("there is no such file", where=name_or_path)
    folders = _upstream_folders()
    if not folders:
        caches = ", ".join(str(cache) for cache in _module_caches())
        raise ConfigError(
            f"{name_or_path} is not a file, and Kubernetes' own workloads are not on this machine "
            f"(looked for k8s.io/kubernetes in {caches}); `make controlplane` fetches them"
        )
    found = folders[0] / name_or_path / _FILE_NAME
    if found.is_file():
        return found
    there = sorted(
        str(each.parent.relative_to(folders[0])) for each in folders[0].rglob(_FILE_NAME)
    )
    raise ConfigError(
        f"{name_or_path} is neither a file nor one of Kubernetes' own workloads, which are "
        f"{', '.join(there)}"
    )


def select(
    workloads: Sequence[Workload], pattern: str = "*", *, labels: Sequence[str] = ()
) -> list[Workload]:
    """Those whose title, test or name matches the glob, with upstream's label filter.

    `labels` as scheduler_perf's flag has them: `performance`, `+short`, `-integration-test`.
    ConfigError if there is none.
    """
    named = [
        workload
        for workload in workloads
        if any(
            fnmatchcase(text, pattern) for text in (workload.title, workload.test, workload.name)
        )
    ]
    if not named:
        titles = [workload.title for workload in workloads]
        close = get_close_matches(pattern, titles, _NAMED) or titles[:_NAMED]
        more = f" and {len(titles) - len(close):,} more" if len(titles) > len(close) else ""
        raise ConfigError(f"no workload is called {pattern}; there are {', '.join(close)}{more}")
    chosen = [workload for workload in named if _passes(workload, labels)]
    if not chosen:
        raise ConfigError(f"no workload of {pattern} has the labels {','.join(labels)}")
    return chosen


def _passes(workload: Workload, labels: Sequence[str]) -> bool:
    return all(
        (label.lstrip("+-") in workload.labels) is not label.startswith("-")
        for label in labels
        if label
    )


def _module_caches() -> list[Path]:
    """Where Go keeps modules, as `go env GOMODCACHE` would say."""
    caches = [Path(os.environ["GOMODCACHE"])] if os.environ.get("GOMODCACHE") else []
    folders = [*os.environ.get("GOPATH", "").split(os.pathsep), str(Path.home() / "go")]
    caches += [Path(folder, "pkg", "mod") for folder in folders if folder]
    return list(dict.fromkeys(caches))


def _upstream_folders() -> list[Path]:
    """The scheduler_perf folders of the Kubernetes modules that are there, newest first."""
    modules = [
        module
        for cache in _module_caches()
        for module in cache.glob("k8s.io/kubernetes@v*")
        if (module / _IN_MODULE).is_dir()
    ]
    modules.sort(key=lambda module: _version(module.name), reverse=True)
    return [module / _IN_MODULE for module in modules]


def _version(name: str) -> tuple[int, ...]:
    release, _, preview = name.partition("@v")[2].partition("-")
    return (*(int(part) for part in re.findall(r"\d+", release)), 0 if preview else 1)


def _name_of(written: object) -> str:
    return str(written.get("name", "")) if isinstance(written, dict) else ""


def _read_test(file: Path, name: str, test: Fields, templates: Templates) -> list[Workload]:
    operations = test.items("workloadTemplate")
    workloads: list[Workload] = []
    for number, written in enumerate(test.items("workloads")):
        what = f"test {name}, workload {_name_of(written) or number}"
        fields = Fields(file, written, what, _WORKLOAD_FIELDS)
        own_name = fields.required_text("name")
        if any(own_name == other.name for other in workloads):
            fields.fail("there is another workload of this name")
        workloads.append(_read_workload(file, name, what, test, fields, operations, templates))
    return workloads


def _read_workload(
    file: Path,
    test_name: str,
    what: str,
    test: Fields,
    fields: Fields,
    written_operations: list[Any],
    templates: Templates,
) -> Workload:
    params = Parameters(fields.scalars("params"), fields)
    reader = Reader(file, what, params, templates, test.text("defaultPodTemplatePath"))
    cannot_play = ""
    try:
        for number, written in enumerate(written_operations):
            reader.add(number, written)
        reader.end(fields)
    except CannotPlay as problem:
        reader.operations.clear()
        cannot_play = str(problem)
    threshold, by_topic = _thresholds(fields)
    config = test.text("schedulerConfigPath")
    return Workload(
        file=file,
        test=test_name,
        name=fields.text("name"),
        operations=tuple(reader.operations),
        feature_gates=test.table("featureGates", bool) | fields.table("featureGates", bool),
        labels=frozenset(test.texts("labels") + fields.texts("labels")),
        params=params.values,
        threshold=threshold,
        topic_thresholds=by_topic,
        threshold_metric=_metric(test, fields),
        scheduler_config=_existing(file.parent / config, test) if config else None,
        cannot_play=cannot_play,
    )


def _thresholds(fields: Fields) -> tuple[float, dict[str, float]]:
    if isinstance(fields.value("threshold"), dict):
        by_topic = fields.table("threshold", float)
        plain = 0.0
    else:
        by_topic = {}
        plain = fields.number("threshold")
    if min((plain, *by_topic.values())) < 0:
        fields.fail("a threshold cannot be negative")
    return plain, by_topic


def _metric(test: Fields, fields: Fields) -> str:
    if "thresholdMetricSelector" in fields:
        return fields.inner("thresholdMetricSelector", _METRIC_FIELDS).text("name", _METRIC)
    return test.inner("defaultThresholdMetricSelector", _METRIC_FIELDS).text("name", _METRIC)


def _existing(path: Path, fields: Fields) -> Path:
    if not path.is_file():
        fields.fail(f"schedulerConfigPath: there is no file {path}")
    return path
