"""The command line: ``python -m tests.parity.cel [--selectors 10000] [--seed 1]``

Called by ``make parity``. Prints each difference and ends with 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
import time

from stowplan.lab.controlplane import BinaryMissing, find_binary
from tests.parity.cel.beside import differences
from tests.parity.oracle import Oracle


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.parity.cel", description=__doc__)
    parser.add_argument("--selectors", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    try:
        binary = find_binary("cel")
    except BinaryMissing as problem:
        print(problem, file=sys.stderr)
        return 1
    started = time.monotonic()
    found = 0
    with Oracle(binary) as oracle:
        for difference in differences(oracle, options.seed, options.selectors):
            found += 1
            print(difference, flush=True)
    print(
        f"{options.selectors} device selectors with seed {options.seed}, on 4 devices each, in"
        f" {time.monotonic() - started:.0f} s: {found} differences"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
