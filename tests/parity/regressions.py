"""Questions that were once answered differently, kept as files with upstream's answer.

`python -m tests.parity` writes one for every difference that it finds; a test replays them, against
the answers in the file and, where the oracle is there, against the oracle. A file whose question
takes the default plugins is as good in a year as today; delete one only if it teaches nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from stowplan.judge import Judge
from tests.parity.compare import Difference, difference
from tests.parity.device_answers import device_difference
from tests.parity.device_examine import static_lines, walk
from tests.parity.examine import Examiner, Finding, alone, our_answers
from tests.parity.generate.dice import Json

FOLDER = Path(__file__).parent / "regressions"


def keep(finding: Finding, examiner: Examiner, folder: Path = FOLDER) -> Path:
    """Write a finding, and what the oracle says to it, to a file of its own."""
    kept = {
        "about": f"{finding.difference.kind}, found by {finding.origin or 'hand'}",
        "question": finding.question,
        "answers": examiner.answers(finding.question),
    }
    text = json.dumps(kept, indent=1) + "\n"
    words = re.sub(r"[^a-z]+", "-", finding.difference.kind.lower()).strip("-")
    digest = hashlib.sha256(json.dumps(finding.question).encode()).hexdigest()[:8]
    folder.mkdir(exist_ok=True)
    path = folder / f"{words}-{digest}.json"
    path.write_text(text, encoding="utf-8")
    return path


def read(path: Path) -> Json:
    kept: Json = json.loads(path.read_text(encoding="utf-8"))
    return kept


def replay(kept: Json) -> Difference | None:
    """Where our answers differ from those in the file."""
    compare = device_difference if kept["question"].get("devices") else difference
    for ours, theirs in zip(_ours(kept["question"]), kept["answers"], strict=True):
        found = compare(ours, theirs)
        if found is not None:
            return found
    return None


def _ours(question: Json) -> list[Json]:
    if question.get("devices"):
        return [ours for line, ours, _ in walk(None, static_lines(question)) if "pod" in line]
    if "steps" not in question:
        return [alone(Judge(check=False), question)]
    return [answer for line, answer in our_answers(question) if "pod" in line]
