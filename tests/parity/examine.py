"""Asks ourselves and the oracle the same, and says where the answers differ.

A case is asked cold, of a judge that knows nothing yet, and warm, of a stream that came to the same
cluster by detours. A sequence is asked at every step. Beside the judge, who looks at everything, a
chooser is asked, who takes the live scheduler's short ways; see choosing.py. What must stay true: a
finding can be shown again from its `question` alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field

from stowplan.judge import Judge, Stream
from tests.parity.branches import Hits, observe
from tests.parity.choosing import Chooser, follow_up, wire
from tests.parity.compare import Difference, difference
from tests.parity.detours import long_way
from tests.parity.device_examine import examine_devices, static_lines, walk
from tests.parity.generate.dice import Json
from tests.parity.oracle import Oracle
from tests.parity.smaller import shrink
from tests.parity.tight import tight


@dataclass
class Finding:
    """A question that is answered differently: a line, or a sequence."""

    question: Json
    difference: Difference
    #: Where it comes from, such as the seed.
    origin: str = ""


class Ourselves:
    """Both of us who are asked: one cluster each, the same in the end."""

    def __init__(self) -> None:
        self._stream = Stream(check=False)
        self._chooser = Chooser()

    def answer(self, step: Json) -> Json:
        """The judge's answer to a step, and the `choices` that were made."""
        line = wire(step)
        said = self._stream.answer(line) | self._chooser.choose(step)
        if "error" in said and "pod" in step:
            # A line that fails changes nothing; the oracle goes on nevertheless.
            self._stream.answer({name: line[name] for name in line if name != "pod"})
            # It does not choose where a plugin breaks.
            self._chooser.search_again_from(said["start"])
        return said


@dataclass
class Examiner:
    """Asks; `hits` counts what the oracle's answers have shown of the plugins."""

    oracle: Oracle
    hits: Hits = field(default_factory=Hits)
    #: How many choices were compared.
    choices: int = 0
    judge: Judge = field(default_factory=lambda: Judge(check=False))

    def case(self, line: Json) -> Finding | None:
        """A line with its own cluster, asked cold and then the long way round."""
        self.oracle.send({**line, "choose": True})
        ours = alone(self.judge, line)
        theirs = self.oracle.receive()
        self.hits.update(observe(line["config"], line["pod"], theirs))
        self.choices += len(ours["choices"])
        found = difference(ours, theirs)
        if found is not None:
            return Finding(line, found)
        detour = long_way(line)
        *_, (_, warm) = our_answers(detour)
        self.choices += len(warm["choices"])
        # The nodes came in another order.
        if difference(warm, {**theirs, "order": warm["order"]}) is None:
            return None
        # Upstream remembers a few things too; or else we should not.
        return self.sequence(detour)

    def sequence(self, story: Json, *, count: bool = True) -> Finding | None:
        """A stream, asked at every step."""
        asked: list[Json] = []
        for step, ours, theirs in self._answers(story):
            # Where pods were placed is known now.
            asked.append({name: step[name] for name in step if name not in ("place", "config")})
            if "pod" not in step:
                if "error" in ours or "error" in theirs:
                    return Finding(story, Difference("step", [f"{ours} {theirs}"]))
                continue
            if count:
                self.hits.update(observe(story["config"], step["pod"], theirs))
                self.choices += len(ours["choices"])
            found = difference(ours, theirs)
            if found is not None:
                return Finding({**story, "steps": asked}, found)
        return None

    def _answers(self, story: Json) -> Iterator[tuple[Json, Json, Json]]:
        for number, (step, ours) in enumerate(our_answers(story)):
            line = {**wire(step), "choose": True}
            theirs = self.oracle.answer({**line, "fresh": True} if number == 0 else line)
            yield step, ours, theirs

    def again(self, question: Json) -> Difference | None:
        """The difference in the answers to a finding's question, if there still is one."""
        if question.get("devices"):
            return examine_devices(self.oracle, static_lines(question)).difference
        if "steps" in question:
            found = self.sequence(question, count=False)
            return found.difference if found else None
        return difference(alone(self.judge, question), self._alone(question))

    def shrink(self, finding: Finding) -> Finding:
        """The same finding with a question as small as can be."""

        def fails(question: Json) -> bool:
            found = self.again(question)
            return found is not None and found.kind == finding.difference.kind

        question = shrink(finding.question, fails)
        found = self.again(question)
        assert found is not None, "what was shrunk still fails"
        return Finding(question, found, finding.origin)

    def answers(self, question: Json) -> list[Json]:
        """What the oracle says to a question, or to every step of it that has a pod."""
        if question.get("devices"):
            answers = walk(self.oracle, static_lines(question))
            return [theirs for line, _, theirs in answers if "pod" in line]
        if "steps" not in question:
            return [self._alone(question)]
        return [theirs for step, _, theirs in self._answers(question) if "pod" in step]

    def _alone(self, line: Json) -> Json:
        return self.oracle.answer({**line, "choose": True})


def alone(judge: Judge, line: Json) -> Json:
    """Our answer to a line with its own cluster."""
    step = {**line, "apply": line["objects"]}
    del step["objects"]
    return judge.answer(line) | Chooser().choose(step)


def our_answers(story: Json) -> Iterator[tuple[Json, Json]]:
    """The lines of a sequence, the first of which has the configuration, and our answers."""
    first, *rest = story["steps"] or [{"id": 0}]
    steps = deque([{**first, "config": story["config"]}, *rest])
    with tight() if story.get("tight") else nullcontext():
        us = Ourselves()
        while steps:
            step = steps.popleft()
            ours = us.answer(step)
            yield step, ours
            choices = ours["choices"]
            steps.extendleft(follow_up(step, choices[0].get("node") if choices else None))
