"""`python -m tests.perf.record`: count again, and write ceilings.toml with some room above."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

from tests.perf.counting import KINDS, decision_work, live_work

CEILINGS = Path(__file__).with_name("ceilings.toml")
#: How much more work than recorded is let pass.
ROOM = 1.1

_HEADER = """\
# The most work that a pod may cost (see counting.py). A change that needs more fails
# test_counted_work. If the work is worth it, or has become less, count again and commit:
#     python -m tests.perf.record
# Ceilings are what was counted and a tenth more; requests and decoded objects have no room.
"""


def main() -> None:
    lines = [_HEADER]
    for kind in KINDS:
        lines.append(f'["{kind}"]')
        work = decision_work(kind)
        lines += [f"{name} = {math.ceil(count * ROOM)}" for name, count in work.items()]
        lines.append("")
    lines.append("[live]")
    work = asyncio.run(live_work())
    lines += [f"{name} = {math.ceil(count * 100) / 100}" for name, count in work.items()]
    CEILINGS.write_text("\n".join(lines) + "\n")
    print(CEILINGS.read_text())


if __name__ == "__main__":
    main()
