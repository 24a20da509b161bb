"""The command `stowplan`, which is also `python -m stowplan`."""

import sys


def main() -> None:
    """Run the command. Ctrl-C while its modules are imported ends it quietly, too."""
    try:
        from stowplan.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
