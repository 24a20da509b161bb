"""Writes the parts of the Helm chart that repeat others: the monitoring files, the table of values.

`make docs` runs it after a change in deploy/monitoring or in the chart's values.yaml, which are the
source; tests/unit/test_helm_values.py fails when the chart is not what this would write. The files
are copies because Helm warns about every symbolic link. RBAC rules are written by tools/rbac.py.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

DEPLOY: Final = Path(__file__).parents[1] / "deploy"
CHART: Final = DEPLOY / "helm" / "stowplan"
MONITORING: Final = DEPLOY / "monitoring"
README: Final = CHART / "README.md"
_MARKS: Final = ("<!-- values: written by make docs -->\n", "<!-- end of values -->\n")
_KEY: Final = re.compile(r"^( *)([A-Za-z]+):(?: (.*))?$")


class Value(NamedTuple):
    """A row of the table: a key of values.yaml with everything below it."""

    path: str
    default: Any
    description: str


def values(text: str) -> Iterator[Value]:
    """The commented keys of values.yaml. A key without a comment must have commented keys below."""
    loaded = yaml.safe_load(text)
    parents: list[tuple[int, str]] = []
    covered: int | None = (
        None  # the indentation of a commented key: what is below it is its default
    )
    comment: list[str] = []
    for line in text.partition("\n\n")[2].splitlines():
        if line.strip().startswith("#"):
            comment.append(line.strip().removeprefix("#").strip())
            continue
        key = _KEY.match(line)
        if key and (covered is None or len(key[1]) <= covered):
            indent = len(key[1])
            parents = [each for each in parents if each[0] < indent] + [(indent, key[2])]
            names = [name for _, name in parents]
            default = loaded
            for name in names:
                default = default[name]
            covered = indent if comment else None
            if comment:
                yield Value(".".join(names), default, " ".join(comment))
            elif not isinstance(default, dict):
                raise ValueError(f"values.yaml: {'.'.join(names)} has no comment")
        comment = []


def table() -> str:
    """The table of values in README.md."""
    lines = ["| value | default | |", "|---|---|---|"]
    for path, default, description in values((CHART / "values.yaml").read_text()):
        shown = default if isinstance(default, str) else json.dumps(default)
        shown = shown.strip().replace("|", "\\|")
        lines.append(f"| `{path}` | {f'`{shown}`' if shown else ''} | {description} |")
    return "\n".join(lines) + "\n"


def files() -> dict[Path, str]:
    """Every file that is written, with its content."""
    before, _, rest = README.read_text().partition(_MARKS[0])
    written = {
        README: before + _MARKS[0] + table() + _MARKS[1] + rest.partition(_MARKS[1])[2],
    }
    for name in ("dashboard.json", "rules.yaml"):
        written[CHART / "files" / name] = (MONITORING / name).read_text()
    return written


def main() -> int:
    for path, text in files().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
