"""What a pex does first: it goes on only where its wheels work, or says in one line where they do.

`package.py` copies this file into the pex, and a call of `require` after it. Any Python 3 may meet
it, so it keeps to what all of them understand, and imports nothing of ours.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path

GLIBC = (2, 28)


def require(versions: "tuple[tuple[int, int], ...]", machine: str) -> None:
    """Return where the pex can run; go on under another Python of PATH; or end with a line."""
    names = ["{}.{}".format(*version) for version in versions]
    served = "serves CPython {} on Linux for {} with glibc {}.{} or newer".format(
        ", ".join(names), machine, *GLIBC
    )
    name = Path(sys.argv[0]).name
    here = machine_words(platform.machine())
    libc, release = platform.libc_ver()
    if sys.platform != "linux" or here != machine or not is_new_enough(libc, release):
        library = f"{libc} {release}".strip() or "another C library"
        sys.exit(f"{name} {served}; this is {sys.platform} for {here} with {library}.")
    if platform.python_implementation() == "CPython" and sys.version_info[:2] in versions:
        return
    for version in reversed(names):
        other = find_python(f"python{version}")
        if other:
            os.execv(other, [other, *sys.argv])
    this = f"{platform.python_implementation()} {platform.python_version()}"
    sys.exit(f"{name} {served}; this is {this}, and PATH has none of those.")


def machine_words(machine: str) -> str:
    """The name that wheels use."""
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine.lower())


def is_new_enough(libc: str, release: str) -> bool:
    numbers = [int(number) for number in release.split(".")[:2] if number.isdigit()]
    return libc == "glibc" and tuple(numbers) >= GLIBC


def find_python(name: str) -> str:
    """The path of a Python that starts: some programs of such a name only say there is none."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = str(Path(folder, name))
        if folder and Path(path).is_file() and os.access(path, os.X_OK):
            started = subprocess.run(
                [path, "-c", ""], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            if started.returncode == 0:
                return path
    return ""
