"""Writes docs/flags.md: kube-scheduler's flags and feature gates, and what each does here.

`make docs` runs it. A test fails when the page in the repository is not what this would write.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from stowplan.cli.flag_values import YIELDING
from stowplan.cli.flags_table import FLAGS, SECTIONS
from stowplan.cli.pflag import Flag
from stowplan.config.feature_gates import ALWAYS_ON, INTERNAL, MISSING, SWITCHED, known_gates

PAGE: Final = Path(__file__).parents[1] / "docs" / "flags.md"

INTRODUCTION: Final = f"""\
# Flags of kube-scheduler

`kube-scheduler` (the same as `stowplan kube-scheduler`) takes exactly the command line of
kube-scheduler 1.36.3: its {len(FLAGS)} flags, in Go's syntax, with its defaults. `stowplan run`
takes the same flags, and a few of its own (`stowplan run --help`). `make docs` writes this page.

- **Syntax**: `--flag=value` or `--flag value`; boolean flags only with `=`; `-v 2` or `-v=2`; lists
  are separated by commas and grow with each repetition; durations are Go's, such as `1m30s`.
- **With `--config`**, flags marked *file* are ignored, with a warning: the file decides. Flags of
  leader election override the file. All others apply either way.
- **A flag without effect here** is accepted, with one warning that says why.
- **A mistake** is reported in one line, with exit code 2 (kube-scheduler: 1).

`stowplan run` differs from `kube-scheduler` in defaults:

| | `kube-scheduler` | `stowplan run` |
|---|---|---|
| `--bind-address` | `0.0.0.0` | `127.0.0.1` |
| `--secure-port` | `10259` | `10259`, or `0` if `--port` (plain HTTP) is given |
| Lease | `kube-scheduler` | the name of the first profile, if that is not `default-scheduler` |
| `--kubeconfig` with `--config` | ignored | ignored if the file names a kubeconfig |
| environment variables | none | `STOWPLAN_SOME_FLAG` sets `--some-flag` |

`--version` prints `Kubernetes v1.36.3 (Stowplan ...)`; the first is the version that is followed.

## Flags
"""

GATES: Final = """\
## Feature gates

`--feature-gates` knows all gates of kube-scheduler 1.36.3. An unknown name, or another value for a
locked gate, is an error, as there. Stowplan behaves as kube-scheduler does with default gates. A
gate set to another value causes one warning, unless it is obeyed.

| here | gates |
|---|---|
"""


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for section, flags in SECTIONS.items():
        parts.append(f"### {section} flags\n\n| flag | default | effect |\n|---|---|---|\n")
        parts += [_row(flag) for flag in flags]
        parts.append("\n")
    others = known_gates().keys() - SWITCHED - ALWAYS_ON - MISSING - INTERNAL
    parts.append(GATES)
    for title, names in (
        ("obeyed", SWITCHED),
        ("always on", ALWAYS_ON),
        ("not here yet", MISSING),
        ("about kube-scheduler's internals", INTERNAL),
    ):
        parts.append(f"| {title} | {_gates(names)} |\n")
    parts.append(f"| of other components | {len(others)} more |\n")
    return "".join(parts)


def _row(flag: Flag) -> str:
    default = f"`{flag.default}`" if flag.default not in ("", "[]") else ""
    text = flag.help.replace("|", "\\|")
    if flag.name in YIELDING:
        text = text.replace(" Ignored with --config.", "") + " *file*"
    if flag.without_effect:
        text += f" **No effect**: {flag.without_effect}."
    shown = flag.title.replace(", ", "`, `")
    return f"| `{shown}` | {default} | {text} |\n"


def _gates(names: frozenset[str]) -> str:
    gates = known_gates()
    return ", ".join(
        f"`{name}` ({gates[name].stage.lower()}, {str(gates[name].default).lower()})"
        for name in sorted(names)
    )


if __name__ == "__main__":
    PAGE.write_text(page())
