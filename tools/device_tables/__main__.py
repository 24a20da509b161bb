"""Records kube-scheduler's own test tables about devices as JSON: ``python -m tools.device_tables``

The tables are Go code of internal packages. Their module is copied into a temporary folder, a
recorder beside this file is added to the copy, and the tests run there. What they were given and
what came of it is written to tests/data/dra, one case a line. Needs Go and the module cache of the
control plane's build. Run it again when the pinned Kubernetes changes.

The same tables make the same files. What differs from run to run is replaced: the order of Go's
maps, random UIDs, and times.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from stowplan.lab.controlplane.targets import KUBERNETES

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "tests/data/dra"
#: When every recorded case began.
NOW: Final = datetime.fromisoformat("2026-01-01T00:00:00Z")
_UID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_TIME: Final = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ\b")
#: Members of a case that Go lists in any order.
_UNORDERED: Final = ("allocated", "capacity", "classes", "shared")


@dataclass(frozen=True)
class Table:
    """Tests of one Go package, and what is changed in its copy."""

    name: str
    module: str
    package: str
    recorder: str
    tests: str
    #: Files to edit: what is replaced by what.
    edits: dict[str, list[tuple[str, str]]]
    #: Whether some of the tests fail.
    fails: bool = False


_STEP = "result interface{}, status *fwk.Status) {\n\ttCtx.Helper()\n"
_CASE = "\t\t\tinitialObjects := testCtx.listAll(tCtx)\n\t\t\tvar registry"
_PREPARED = "\t\t\t\tmodified[i] = obj\n\t\t\tcase *v1.Pod:"
_CLAIM_HINT = "isSchedulableAfterClaimChange(tCtx.Logger(), tc.pod, oldObj, newObj)\n"
_POD_HINT = "isSchedulableAfterPodChange(tCtx.Logger(), tc.pod, nil, tc.obj)\n"
_HINT = '\t\t\trecordHint("{}", name, tc.pod, tc.{}, {}, gotHint, err)\n'
TABLES = (
    Table(
        "plugin_cases",
        "k8s.io/kubernetes",
        "pkg/scheduler/framework/plugins/dynamicresources",
        "plugin_recorder.go",
        "TestPlugin$|TestIsSchedulableAfter",
        {
            "dynamicresources_test.go": [
                (_STEP, f"{_STEP}\tdefer recordStep(tCtx, tc, status)\n"),
                (_CASE, f"\t\t\trecordCase(tCtx, name, &tc, nodes, feats)\n{_CASE}"),
                (_PREPARED, _PREPARED.replace("obj\n", "obj\n\t\t\t\trecordPrepared(obj)\n", 1)),
                (_CLAIM_HINT, _CLAIM_HINT + _HINT.format("claim", "claims", "oldObj, newObj")),
                (_POD_HINT, _POD_HINT + _HINT.format("pod", "objs", "nil, tc.obj")),
            ]
        },
    ),
    Table(
        "allocator_cases",
        "k8s.io/dynamic-resource-allocation",
        "structured/internal/incubating",
        "allocator_recorder.go",
        "TestRecord$",
        {},
        fails=True,
    ),
)


def main() -> int:
    wanted = set(sys.argv[1:]) or {table.name for table in TABLES}
    for table in TABLES:
        if table.name in wanted:
            with tempfile.TemporaryDirectory() as folder:
                lines = record(table, Path(folder))
            DATA.mkdir(parents=True, exist_ok=True)
            path = DATA / f"{table.name}.jsonl.gz"
            # Without a date, so that the same cases make the same file.
            path.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
            print(f"{path}: {len(lines)} cases")
    return 0


def record(table: Table, folder: Path) -> list[str]:
    """The recorded cases, one line of JSON each."""
    go = ["go", "list", "-m", "-f", "{{.Dir}}", table.module]
    said = subprocess.run(go, cwd=KUBERNETES.directory, check=True, capture_output=True, text=True)
    copy = folder / "module"
    shutil.copytree(said.stdout.strip(), copy, copy_function=shutil.copyfile)
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    package = copy / table.package
    (package / "allocator_test.go").unlink(missing_ok=True)
    shutil.copyfile(HERE / table.recorder, package / "recorder_test.go")
    for name, edits in table.edits.items():
        text = (package / name).read_text(encoding="utf-8")
        for old, new in edits:
            if text.count(old) != 1:
                raise SystemExit(f"{name} has changed: it has {text.count(old)} times\n{old}")
            text = text.replace(old, new)
        (package / name).write_text(text, encoding="utf-8")
    go_mod = (KUBERNETES.directory / "go.mod").read_text(encoding="utf-8").splitlines()
    kept = [line for line in go_mod if not line.strip().startswith(f"{table.module} =>")]
    replaced = [*kept, f"replace {table.module} => {copy}", ""]
    (folder / "go.mod").write_text("\n".join(replaced), encoding="utf-8")
    shutil.copyfile(KUBERNETES.directory / "go.sum", folder / "go.sum")
    recorded = folder / "cases.jsonl"
    run = subprocess.run(
        [
            *("go", "test", "-trimpath", "-mod=mod", f"-modfile={folder / 'go.mod'}", "-count=1"),
            *("-run", table.tests, f"{table.module}/{table.package}"),
        ],
        cwd=KUBERNETES.directory,
        env={**os.environ, "GOFLAGS": "", "DUMP": str(recorded)},
        check=False,
        capture_output=True,
        text=True,
    )
    # Cases that are about gates being off fail: the allocator is recorded with all of them on.
    if not recorded.exists() or (run.returncode and not table.fails):
        raise SystemExit(f"the tests of {table.package} failed:\n{run.stdout[-3000:]}{run.stderr}")
    cases = [json.loads(line) for line in recorded.read_text(encoding="utf-8").splitlines()]
    return lines_of(cases)


def lines_of(cases: list[Any]) -> list[str]:
    """The cases as lines, in an order of their own: Go goes through its tables in any order."""
    lines = [(case.get("table", ""), case.get("name", ""), line_of(case)) for case in cases]
    return [line for *_, line in sorted(lines)]


def line_of(case: Any) -> str:
    """A case as JSON that is the same whenever it is recorded."""
    pruned: Any = _pruned(case)
    for name in _UNORDERED:
        if name in pruned:
            pruned[name].sort(key=_text)
    began = datetime.fromisoformat(pruned["now"]) if "now" in pruned else NOW
    text = _TIME.sub(lambda time: _shifted(time[0], began), _text(pruned))
    numbers: dict[str, int] = {}
    for uid in _UID.findall(text):
        numbers.setdefault(uid, len(numbers))
    return _UID.sub(lambda uid: f"00000000-0000-4000-8000-{numbers[uid[0]]:012}", text) + "\n"


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _shifted(time: str, began: datetime) -> str:
    """The time in a case that began at `NOW`.

    A case takes seconds, and begins minutes after the tests, which is what most of its times are
    relative to: they become the case's own, or ten minutes before its tests, a minute ago.
    """
    age_s = (began - datetime.fromisoformat(time)).total_seconds()
    if age_s < 300:
        age_s = 0
    elif age_s > 600:
        age_s = 660
    shifted = datetime.fromtimestamp(NOW.timestamp() - round(age_s, -1), NOW.tzinfo)
    return shifted.strftime("%Y-%m-%dT%H:%M:%SZ")


def _pruned(value: object) -> object:
    """The value without what Go writes for pointers and texts that are not set."""
    if isinstance(value, dict):
        pruned = {name: _pruned(inner) for name, inner in value.items()}
        return {name: inner for name, inner in pruned.items() if inner not in (None, "")}
    return [_pruned(inner) for inner in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())
