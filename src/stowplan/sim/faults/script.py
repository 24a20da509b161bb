"""A script: what happens to a simulated cluster, and when. It is what a failing seed shrinks to.

A script is JSON: the seed of the order of tasks and of latencies, the number of replicas, and
steps in the order of time. docs/fault-simulation.md lists the steps.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stowplan.errors import ConfigError
from stowplan.loader.json_text import load_json


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens `at` so many virtual seconds after the start."""

    at: float
    do: str
    args: dict[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        return json.dumps({"at": self.at, "do": self.do, **self.args})


@dataclass(frozen=True, slots=True)
class Script:
    """One run."""

    seed: int
    replicas: int
    steps: tuple[Step, ...]
    #: Every so many decisions are made twice and compared (`--verify-decisions`); 0: none.
    verify: int = 0
    #: Schedulers write the results of attempts into pods (`--annotate`).
    annotate: bool = False

    def with_steps(self, steps: Iterable[Step]) -> Script:
        return replace(self, steps=tuple(steps))

    def text(self) -> str:
        """JSON with one step a line."""
        steps = ",\n".join(f"  {step.line()}" for step in self.steps)
        annotate = ' "annotate": true,' if self.annotate else ""
        return (
            f'{{"seed": {self.seed}, "replicas": {self.replicas}, "verify": {self.verify},'
            f'{annotate} "steps": [\n{steps}\n]}}\n'
        )


def read_script(path: Path) -> Script:
    """Read a script from a file; ConfigError says what is wrong with it."""
    try:
        document = load_json(path.read_bytes())
        steps = [dict(each) for each in document["steps"]]
        return Script(
            int(document["seed"]),
            int(document["replicas"]),
            tuple(Step(float(each.pop("at")), str(each.pop("do")), each) for each in steps),
            int(document.get("verify", 0)),
            bool(document.get("annotate", False)),
        )
    except OSError as problem:
        raise ConfigError(problem.strerror or str(problem), where=str(path)) from None
    except KeyError as problem:
        why = f"`{problem.args[0]}` is missing"
    except (ValueError, TypeError, RecursionError) as problem:
        why = str(problem)
    raise ConfigError(f"is not a script of faults: {why}", where=str(path))
