#!/usr/bin/env python3
"""The static scheduler under the name it had: `./scheduler.py --name test --daemon -vv`.

It is `stowplan static`, all of it; `./scheduler.py --help` lists flags and variables.
"""

from stowplan.cli.static import main

if __name__ == "__main__":
    main()
