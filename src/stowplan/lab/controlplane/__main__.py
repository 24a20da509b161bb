"""The command line: ``python -m stowplan.controlplane build|path|status|up|clean``.

Called by the Makefile and by people. What must stay true: `path` prints nothing but a path on
standard output so that scripts can use it, progress and errors go to standard error, and an error
ends with exit status 1 and a sentence instead of a traceback.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

from stowplan.lab.controlplane.binaries import (
    BinaryMissing,
    cache_directory,
    cache_root,
    find_binary,
    locate,
    missing_targets,
)
from stowplan.lab.controlplane.build import BuildError, build, build_lock
from stowplan.lab.controlplane.cluster import ControlPlane
from stowplan.lab.controlplane.components import ADMISSION_NEEDING_CONTROLLERS
from stowplan.lab.controlplane.processes import ControlPlaneError
from stowplan.lab.controlplane.progress import BuildProgress
from stowplan.lab.controlplane.targets import TARGET_BY_NAME, TARGETS, BuildTarget, pinned_version
from stowplan.lab.controlplane.toolchain import ToolchainError
from stowplan.present.pipes import EXIT_PIPE_CLOSED, is_stdout_closed, watch_stdout
from stowplan.present.status_line import format_elapsed


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    watch_stdout()
    commands = {
        "build": _build,
        "path": _path,
        "status": _status,
        "up": _up,
        "clean": _clean,
    }
    try:
        code = commands[options.command](options)
        sys.stdout.flush()
        return code
    except (BinaryMissing, BuildError, ControlPlaneError, ToolchainError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        # A full disk, a cache directory that cannot be written: the text names the file.
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        if is_stdout_closed():
            return EXIT_PIPE_CLOSED
        kept = "; what is built stays in the cache" if options.command == "build" else ""
        print(f"\ninterrupted{kept}", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m stowplan.controlplane",
        description="Build and run the real Kubernetes control plane for tests and benchmarks.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    build_parser = commands.add_parser("build", help="build what is missing into the cache")
    build_parser.add_argument(
        "--only",
        type=_parse_names,
        metavar="NAME,...",
        default=TARGETS,
        help=f"only these of: {', '.join(TARGET_BY_NAME)}",
    )

    path_parser = commands.add_parser(
        "path", help="print the cache directory, or one binary's path"
    )
    path_parser.add_argument("name", nargs="?", choices=tuple(TARGET_BY_NAME), metavar="NAME")

    commands.add_parser("status", help="show each binary: version, whether it is there, and where")

    up_parser = commands.add_parser("up", help="run a control plane until Ctrl-C")
    up_parser.add_argument(
        "--controller-manager", action="store_true", help="also run kube-controller-manager"
    )
    up_parser.add_argument("--kwok", action="store_true", help="also run KWOK, managing all nodes")
    up_parser.add_argument("--scheduler", action="store_true", help="also run kube-scheduler")
    up_parser.add_argument(
        "--scheduler-config", type=Path, metavar="FILE", help="its KubeSchedulerConfiguration"
    )
    up_parser.add_argument("--directory", type=Path, help="keep data, logs and kubeconfig here")

    clean_parser = commands.add_parser("clean", help="remove what was built from the cache")
    clean_parser.add_argument(
        "--stale", action="store_true", help="keep the build of the versions pinned here"
    )
    return parser


def _parse_names(text: str) -> tuple[BuildTarget, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in TARGET_BY_NAME]
    if unknown or not names:
        known = ", ".join(TARGET_BY_NAME)
        raise argparse.ArgumentTypeError(f"unknown name {', '.join(unknown)!r}; there is: {known}")
    return tuple(TARGET_BY_NAME[name] for name in names)


def _build(options: argparse.Namespace) -> int:
    started = time.monotonic()
    with BuildProgress(sys.stderr) as progress:
        built = build(options.only, progress)
    directory = cache_directory()
    if built:
        names = ", ".join(target.name for target in built)
        print(f"Built {names} in {format_elapsed(time.monotonic() - started)}: {directory}")
    else:
        print(f"The control plane is built: {directory}")
    return 0


def _path(options: argparse.Namespace) -> int:
    if options.name is not None:
        print(find_binary(options.name))
        return 0
    missing = missing_targets()
    if missing:
        raise BinaryMissing(target.name for target in missing)
    print(cache_directory())
    return 0


def _status(_options: argparse.Namespace) -> int:
    complete = True
    print(f"cache: {cache_directory()}")
    for target in TARGETS:
        located = locate(target)
        if located is None:
            complete = False
            version, place = pinned_version(target.module), "missing"
        elif located.from_assets:
            version, place = "", f"{located.path} (KUBEBUILDER_ASSETS)"
        else:
            version, place = pinned_version(target.module), str(located.path.name)
        print(f"  {target.name:24} {version:10} {place}")
    if not complete:
        print("`python -m stowplan.controlplane build` builds what is missing", file=sys.stderr)
    return 0 if complete else 1


def _up(options: argparse.Namespace) -> int:
    # A terminated `up` must take its processes along as a Ctrl-C does.
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    print("Starting etcd and kube-apiserver...", file=sys.stderr)
    # With kube-controller-manager admission can be as it is in a cluster.
    disabled = () if options.controller_manager else ADMISSION_NEEDING_CONTROLLERS
    with ControlPlane(
        directory=options.directory, disabled_admission_plugins=disabled
    ) as control_plane:
        if options.controller_manager:
            control_plane.start_controller_manager()
        if options.kwok:
            control_plane.start_kwok()
        if options.scheduler or options.scheduler_config is not None:
            config = options.scheduler_config
            control_plane.start_scheduler(config.read_text() if config is not None else None)
        print(f"export KUBECONFIG={control_plane.kubeconfig}", flush=True)
        print(f"{control_plane.url} is ready; Ctrl-C or SIGTERM stops it.", file=sys.stderr)
        try:
            while not stop.wait(1.0):
                control_plane.check_running()
        except KeyboardInterrupt:
            print("\nStopping.", file=sys.stderr)
    return 0


def _clean(options: argparse.Namespace) -> int:
    root = cache_root()
    if not root.is_dir():
        print(f"Nothing to remove: {root} does not exist.")
        return 0
    kept = {"lock"}
    if options.stale:
        # The toolchain stays too: the next build needs it where the machine has no Go.
        kept |= {cache_directory().name, "go-toolchain"}
    with BuildProgress(sys.stderr) as progress, build_lock(root, progress):
        removed = [entry for entry in sorted(root.iterdir()) if entry.name not in kept]
        for entry in removed:
            shutil.rmtree(entry)
    print(f"Removed {len(removed)} of the directories in {root}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
