"""The plugin author's API is small, documented and frozen."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import stowplan
from stowplan.cluster.public_table import Labels, Resources
from stowplan.framework.plugin import POINTS

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs" / "plugin-api.md").read_text()
#: The classes that have a section of their own, by the heading of it or of a table in it.
DESCRIBED: dict[str, type] = {
    "Plugin": stowplan.Plugin,
    "Cycle": stowplan.Cycle,
    "Table": stowplan.Table,
    "table.labels": Labels,
    "table.resources": Resources,
    "NodeView": stowplan.NodeView,
    "PodInfo": stowplan.PodInfo,
    "Handle": stowplan.Handle,
}
#: Modules besides `stowplan` that the documentation imports.
PUBLIC_MODULES = {
    "stowplan",
    "stowplan.extender",
    "stowplan.gym",
    "stowplan.scenarios",
    "stowplan.testing",
    "stowplan.traces",
}

FROZEN = [
    "NODES",
    "NOT_KEPT",
    "PODS",
    "SKIP",
    "SUCCESS",
    "ActionType",
    "ApiClient",
    "ClusterEvent",
    "Code",
    "Conflict",
    "Cycle",
    "EventHint",
    "EventRecorder",
    "Eviction",
    "Failure",
    "Handle",
    "Hint",
    "Informer",
    "Node",
    "NodeView",
    "NotFound",
    "Overlay",
    "Plugin",
    "Pod",
    "PodInfo",
    "PostFilterResult",
    "PreFilterResult",
    "QueuedPod",
    "Reads",
    "Rejections",
    "Rows",
    "Status",
    "StowplanError",
    "Table",
    "Taint",
    "error",
    "filter",
    "follow",
    "load_cluster_config",
    "load_config",
    "milli_value",
    "pending",
    "resources",
    "run",
    "score",
    "takes_slices",
    "tolerates",
    "unresolvable",
    "unschedulable",
    "wait",
]


def test_the_public_names_are_frozen() -> None:
    assert sorted(stowplan.__all__) == sorted(FROZEN)


@pytest.mark.parametrize("name", FROZEN)
def test_every_name_can_be_had(name: str) -> None:
    assert getattr(stowplan, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = stowplan.nonsense


def test_importing_the_package_imports_nothing_heavy() -> None:
    script = "import sys, stowplan; print([m for m in ('numpy', 'aiohttp') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_guide_uses_public_names_only() -> None:
    guide = Path(__file__).parents[2] / "docs" / "plugins.md"
    used = set(re.findall(r"stowplan\.([A-Za-z_]+)\b", guide.read_text())) - {"plugins"}
    assert used <= set(stowplan.__all__)


def test_the_guides_examples_run() -> None:
    """Every Python block of the guide is executed; ellipses and all."""
    guide = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL)
    assert len(blocks) >= 3
    space: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/plugins.md", "exec"), space)
    assert isinstance(space["on_ssd"], type)
    assert issubclass(space["on_ssd"], stowplan.Plugin)


def members_of(kind: type) -> dict[str, list[str] | None]:
    """The public members of a class, and of methods the names of their parameters."""
    found: dict[str, list[str] | None] = {}
    fields = (
        [each.name for each in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
    )
    for name in [*fields, *vars(kind), *vars(kind).get("__slots__", ())]:
        value = getattr(kind, name, None)
        if name == "__len__":
            found["len"] = ["table"]
        elif name.startswith("_"):
            continue
        elif inspect.isfunction(value):
            names = list(inspect.signature(value).parameters)[1:]
            found[name] = [each for each in names if each != "_"]
        elif name in fields or kind is stowplan.Plugin or inspect.getdoc(value):
            found[name] = None
    return found


def described(heading: str) -> dict[str, list[str] | None]:
    """What the tables of a section say, in the form of `members_of`."""
    text = REFERENCE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    if heading.startswith("table."):
        text = REFERENCE.partition(f"| member of `{heading}` |")[2].partition("\n\n")[0]
    elif heading == "Table":
        text = text.partition("| member of `table.")[0]
    elif heading == "Plugin":
        text = text.partition("| attribute of an instance |")[0]
    found: dict[str, list[str] | None] = {}
    for name, parameters in re.findall(r"^\| `(\w+)(?:\(([^`]*)\))?` \|", text, re.MULTILINE):
        is_method = re.search(rf"^\| `{name}\(", text, re.MULTILINE)
        found[name] = re.findall(r"\w+", parameters) if is_method else None
    return found


@pytest.mark.parametrize("heading", DESCRIBED)
def test_the_reference_has_every_member_and_no_other(heading: str) -> None:
    """Methods with the names of their parameters."""
    assert described(heading) == members_of(DESCRIBED[heading])


def test_the_reference_has_every_public_name() -> None:
    cells = re.findall(r"^\| (`[^|]*) \|", REFERENCE, re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)", cell)}
    named |= set(re.findall(r"^## (\w+)$", REFERENCE, re.MULTILINE))
    assert [name for name in stowplan.__all__ if name not in named] == []


CALLS = re.findall(
    r"^\| `(\w+)\(([^`]*)\)` \|",
    REFERENCE.partition("\n## Answers and events\n")[2],
    re.MULTILINE,
)


@pytest.mark.parametrize(("name", "shown"), CALLS)
def test_calls_of_the_reference_have_the_real_parameters(name: str, shown: str) -> None:
    """The first of them, in their order."""
    real = list(inspect.signature(getattr(stowplan, name)).parameters)
    parameters = re.findall(r"\w+", shown)
    assert parameters == real[: len(parameters)]


def test_the_reference_is_linked() -> None:
    for page in ("README.md", "docs/plugins.md"):
        assert "plugin-api.md" in (ROOT / page).read_text()


@pytest.mark.parametrize("method", [each for methods in POINTS.values() for each in methods])
def test_help_shows_every_extension_point_with_signature_and_sentence(method: str) -> None:
    shown = pydoc.plain(pydoc.render_doc(stowplan.Plugin))
    found = re.search(rf"^ \|  {method}\(self, \w.*\n \|      ([A-Z].*)", shown, re.MULTILINE)
    assert found, shown


def test_a_plugin_has_only_the_points_that_it_defines() -> None:
    class Scores(stowplan.Plugin):
        name = "Scores"

        def score(self, pod: stowplan.Pod, node: stowplan.NodeView) -> int:
            return 1

    assert not hasattr(Scores, "filter")
    assert not hasattr(Scores(), "filter")
    assert hasattr(Scores(), "score")
    with pytest.raises(AttributeError, match="Scores has no filter"):
        _ = Scores().filter


def imports_of(file: Path) -> set[str]:
    """The modules of ours that a file imports, wherever in it."""
    found: set[str] = set()
    text = re.sub(r"{{(\w+)}}", r"\1", file.read_text())  # in templates
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return {name for name in found if name.split(".")[0] == "stowplan"}


#: The original's file name for a command of ours: it runs the command, and needs no API.
STATIC = ROOT / "examples" / "static" / "scheduler.py"
#: What learners and readers get to see; `check.py` of a lesson is the course's own.
SHOWN = [
    *(file for file in (ROOT / "examples").rglob("*.py") if file != STATIC),
    *(
        file
        for file in (ROOT / "src/stowplan/learn/lessons").rglob("*.py")
        if file.name != "check.py"
    ),
    *(ROOT / "src/stowplan/cli/plugin_template").rglob("*.py.txt"),
]


@pytest.mark.parametrize("file", SHOWN, ids=lambda file: str(file.relative_to(ROOT)))
def test_examples_and_lessons_import_public_modules_only(file: Path) -> None:
    assert imports_of(file) <= PUBLIC_MODULES
