"""Runs the kubectl script against one server and makes what it printed comparable.

`record` returns, for every command, what a user would have seen. `comparable` replaces what can
never be equal on two servers; everything else must be:

- ages, times, UIDs and resource versions, and the space that pads columns with them in;
- cluster IPs of services, which a server picks as it likes;
- the diff of Go structs that follows "pod updates may not change fields other than ...";
- events that kube-apiserver writes when it looks at a service before its cluster IP is recorded,
  which happens on a busy machine;
- what client-go logs about a watch that kubectl's own timeout has cut off, which it does or not;
- managedFields in raw answers and of objects that were never applied: kube-apiserver tracks every
  writer from the first write, the embedded server starts with the first server-side apply.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.kubectl_script import NAMESPACE, Step

_PATIENCE = 60.0
# How kubectl says at this verbosity that its watch has begun.
_VERBOSE = "-v=6"
_ATTACHED = re.compile(r"round_trippers.*watch=true.*200 OK")


@dataclass(frozen=True)
class Output:
    """What one command has left behind; a command that was ended by us has no exit code."""

    code: int | None
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Kubectl:
    """kubectl with a kubeconfig and a cache of its own."""

    binary: Path
    kubeconfig: Path
    cache: Path

    def command(self, step: Step) -> list[str]:
        arguments = shlex.split(step.command)
        if arguments[-1] == "-p":
            arguments.append(step.given or "")
        return [
            str(self.binary),
            f"--kubeconfig={self.kubeconfig}",
            f"--cache-dir={self.cache}",
            f"--namespace={NAMESPACE}",
            *arguments,
        ]

    def run(self, step: Step) -> Output:
        try:
            done = subprocess.run(
                self.command(step),
                input=step.given or "",
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
                env=_environment(),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Output(None, "", f"no end after {_PATIENCE} s")
        return Output(done.returncode, done.stdout, done.stderr)


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", ""), "HOME": "/nonexistent", "TZ": "UTC"}


def record(kubectl: Kubectl, script: tuple[Step, ...]) -> list[tuple[Step, Output]]:
    """Every command of the script, with those that happen during a watch, in order."""
    transcript: list[tuple[Step, Output]] = []
    for step in script:
        if step.during:
            transcript += _record_watch(kubectl, step)
        else:
            transcript.append((step, kubectl.run(step)))
    return transcript


def _record_watch(kubectl: Kubectl, step: Step) -> list[tuple[Step, Output]]:
    out, err = kubectl.cache / "watch.out", kubectl.cache / "watch.err"
    with out.open("w") as stdout, err.open("w") as stderr:
        watching = subprocess.Popen(
            [*kubectl.command(step), _VERBOSE],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=_environment(),
        )
        try:
            _wait_for(watching, err, (_ATTACHED,))
            inner = [(action, kubectl.run(action)) for action in step.during]
            _wait_for(watching, out, tuple(map(re.compile, step.until)))
            if step.command.startswith("wait "):
                watching.wait(_PATIENCE)  # by itself, with a code that counts
        finally:
            watching.terminate()
            code = watching.wait(_PATIENCE)
    errors = re.sub(r"^[IWE]\d{4} .*\n?", "", err.read_text(), flags=re.M)
    return [(step, Output(None if code < 0 else code, out.read_text(), errors)), *inner]


def _wait_for(
    process: subprocess.Popen[bytes], file: Path, patterns: tuple[re.Pattern[str], ...]
) -> None:
    """Until the file has, in this order, a line for each pattern, or the process has ended."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        rest = iter(file.read_text().splitlines())
        if all(any(pattern.search(line) for line in rest) for pattern in patterns):
            return
        time.sleep(0.05)


_MASKS = (
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "<time>"),
    (r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d \+0000", "<time>"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uid>"),
    (r'(resourceVersion"?: ?)"\d+"', r"\1<version>"),
    (r"(Resource Version: +)\d+", r"\1<version>"),
    (r"(?<![\w.])(?:\d+y)?(?:\d+d)?(?:\d+h)?(?:\d+m)?(?:\d+s)?(?<=\d[smhdy])(?= |$|\))", "<age>"),
    (r"\b10\.\d+\.\d+\.\d+\b", "<ip>"),
)


_CLIENT_LOG = re.compile(r"^[IWE]\d{4} .*reflector\.go.*\n?", re.M)
_REPAIRS = re.compile(
    r'^event "\S+\.[0-9a-f]{16}" deleted from .*\n?|^.*\bClusterIPNotAllocated\b.*\n?', re.M
)
_GO_DIFF = re.compile(r"(pod updates may not change fields other than [^\n]*)\n(?:[-+@ ].*\n?)*")


def comparable(text: str) -> str:
    """The text with everything masked that two servers cannot have in common."""
    if text.startswith('{"'):
        text = json.dumps(_without_managers(json.loads(text)), indent=1, sort_keys=True)
    text = _GO_DIFF.sub(r"\1", _REPAIRS.sub("", _CLIENT_LOG.sub("", text)))
    lines = []
    for line in text.splitlines():
        for pattern, replacement in _MASKS:
            line = re.sub(pattern, replacement, line)
        lines.append(re.sub(r"(?<=\S) {2,}", "  ", line).rstrip())
    return "\n".join(lines)


def _without_managers(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_managers(v) for k, v in value.items() if k != "managedFields"}
    return [_without_managers(item) for item in value] if isinstance(value, list) else value
