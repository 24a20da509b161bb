"""Records golden answers for test_merge.py from a real kube-scheduler.

    python tests/unit/config/record_merge.py path/to/kube-scheduler > tests/data/plugin_merge.json

kube-scheduler logs with -v=2 which plugins it runs at which point. It needs no API server for
that, so each case is a process that is stopped once it has said so, or has refused.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SEED = 36
CASES = 60
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
users: [{name: none, user: {}}]
current-context: none
"""


def ask(scheduler: str, plugins: dict[str, Any]) -> dict[str, Any]:
    """{"points": {point: [[name, weight], ...]}} or {"error": text}."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder, "kubeconfig")
        kubeconfig.write_text(KUBECONFIG)
        config = Path(folder, "config.json")
        config.write_text(
            json.dumps(
                {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "KubeSchedulerConfiguration",
                    "clientConnection": {"kubeconfig": str(kubeconfig)},
                    "leaderElection": {"leaderElect": False},
                    "profiles": [{"plugins": plugins}],
                }
            )
        )
        command = [scheduler, "--config", str(config), "-v=2", "--secure-port=0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            answer: dict[str, Any] | None = None
            for line in process.stderr:
                if "starts to work with those plugins" in line:
                    answer = {"points": _points(json.loads(line.split("Plugins=", 1)[1]))}
                    break
                refused = re.search(r'"command failed" err="(.*)"$', line)
                if refused:
                    answer = {"error": refused[1]}
                    break
            process.kill()
    assert answer is not None, plugins
    return answer


def _points(plugins: dict[str, Any]) -> dict[str, list[list[Any]]]:
    return {
        name[0].lower() + name[1:]: [
            [ref["Name"], ref["Weight"]] for ref in plugin_set["Enabled"] or []
        ]
        for name, plugin_set in plugins.items()
        if name != "MultiPoint" and not name.startswith("Placement")
    }


def random_plugins(rng: random.Random, implements: dict[str, list[str]]) -> dict[str, Any]:
    """A few plugin sets, most of them sensible."""
    plugins: dict[str, Any] = {}
    every = sorted({name for names in implements.values() for name in names})
    for point in rng.sample([*implements, "multiPoint", "multiPoint"], k=rng.randint(1, 4)):
        usual = implements.get(point) or every
        wanted = min(rng.choice([0, 1, 1, 2, 3]), len(usual))
        names = rng.sample(usual, k=wanted)
        if rng.random() < 0.1:
            names.append(rng.choice(every))
        enabled = [
            {"name": name} | ({"weight": rng.randint(0, 9)} if rng.random() < 0.5 else {})
            for name in names
        ]
        disabled = [{"name": rng.choice(usual)} for _ in range(rng.choice([0, 0, 1, 2]))]
        if rng.random() < 0.12:
            disabled = [{"name": "*"}]
        plugins[point] = {"enabled": enabled, "disabled": disabled}
    return plugins


def main() -> None:
    scheduler = sys.argv[1]
    default = ask(scheduler, {})
    cases: list[dict[str, Any]] = [{"plugins": {}, **default}]
    implements = {
        point: [name for name, _ in refs] for point, refs in default["points"].items() if refs
    }
    rng = random.Random(SEED)
    while len(cases) < CASES:
        plugins = random_plugins(rng, implements)
        answer = ask(scheduler, plugins)
        if "points" in answer:  # only what the case changes, to keep the file readable
            answer["points"] = {
                point: refs
                for point, refs in answer["points"].items()
                if refs != default["points"][point]
            }
        cases.append({"plugins": plugins, **answer})
    sys.stdout.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
