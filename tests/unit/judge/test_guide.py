"""The examples in docs/decide.md are true."""

from __future__ import annotations

import json
import re
from pathlib import Path

from stowplan.judge import Stream, answer

GUIDE = (Path(__file__).parents[3] / "docs" / "decide.md").read_text()


def test_questions_have_the_answers_that_the_guide_shows() -> None:
    blocks = re.findall(r"```json (question|stream|answer)\n(.*?)```", GUIDE, flags=re.DOTALL)
    assert len(blocks) >= 8
    stream = Stream()
    for (kind, asked), (answered, said) in zip(blocks[::2], blocks[1::2], strict=True):
        assert answered == "answer"
        ask = stream.answer if kind == "stream" else answer
        assert ask(json.loads(asked)) == json.loads(said)


def test_the_python_example_runs() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
    exec(compile(block, "docs/decide.md", "exec"), {})
