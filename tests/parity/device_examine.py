"""Asks ourselves and the oracle about devices, and says where the answers differ.

A case is a history of one line. What must stay true: a finding can be shown again from its
`question` alone, which therefore holds the lines as they were asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.parity.compare import Difference
from tests.parity.device_answers import DeviceStream, device_difference
from tests.parity.device_hits import device_hits
from tests.parity.generate.device_case import device_line
from tests.parity.generate.device_history import History, device_history
from tests.parity.generate.dice import Json
from tests.parity.oracle import Oracle


def lines_of(origin: str) -> History:
    """The lines of `devices 1/17`, one, or of `device history 1/3`."""
    return device_history(origin) if "history" in origin else _alone(device_line(origin))


def _alone(line: Json) -> History:
    yield {"id": 0, "config": line["config"], "apply": line["objects"], "pod": line["pod"]}


def static_lines(question: Json) -> History:
    """The lines of a question that is kept; none if the first has lost its configuration."""
    steps = question["steps"]
    if steps and "config" in steps[0]:
        # A list takes no answers, and a generator does.
        yield from (step for step in steps)


def walk(oracle: Oracle | None, lines: History) -> Iterator[tuple[Json, Json, Json]]:
    """Every line with our answer and the oracle's, which is empty where there is no oracle.

    Ends where the oracle gives up a search: such a line has no answer to compare with.
    """
    us = DeviceStream()
    line = next(lines, None)
    is_first = True
    while line is not None:
        theirs: Json = {}
        if oracle is not None:
            question = {**line, "choose": True, "devices": True, "fresh": is_first}
            if is_first:
                question["config"] = _impatient(line["config"])
            theirs = oracle.answer(question)
            if "timed out trying to allocate" in str(theirs):
                return
        ours = us.respond(line)
        yield line, ours, theirs
        is_first = False
        try:
            line = lines.send(ours)
        except StopIteration:
            return


def _impatient(config: Json) -> Json:
    """The configuration with so short a timeout that we find within our own what upstream finds."""
    profile = config["profiles"][0]
    kind = {"apiVersion": config["apiVersion"], "kind": "DynamicResourcesArgs"}
    args = {"name": "DynamicResources", "args": {**kind, "filterTimeout": "2s"}}
    return {**config, "profiles": [{**profile, "pluginConfig": [*profile["pluginConfig"], args]}]}


@dataclass
class Examined:
    """What came of a history: the lines that were asked, and the first difference."""

    asked: list[Json] = field(default_factory=list)
    difference: Difference | None = None
    choices: int = 0
    hits: Counter[str] = field(default_factory=Counter)

    @property
    def question(self) -> Json:
        return {"devices": True, "steps": self.asked}


def examine_devices(oracle: Oracle, lines: History) -> Examined:
    """Ask until the first difference."""
    done = Examined()
    for line, ours, theirs in walk(oracle, lines):
        done.asked.append(line)
        if "pod" in line:
            done.hits.update(device_hits(theirs))
            done.choices += len(ours["choices"])
            done.difference = device_difference(ours, theirs)
        elif "error" in ours or "error" in theirs:
            done.difference = Difference("step", [f"{ours} {theirs}"])
        if done.difference is not None:
            break
    return done
