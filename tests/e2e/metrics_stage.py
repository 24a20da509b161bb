"""A control plane on which kube-scheduler and then Stowplan do the same work, seen by Prometheus.

Prometheus runs with the rules, the jobs and the rights of deploy/monitoring. Both schedulers are
targets of the job `kube-scheduler`, told apart by the label `cluster`. An extender that fails for
some pods serves both. A static scheduler and a Stowplan with a slow plugin run beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.processes import free_port
from tests.controlplane_fixtures import require_binaries
from tests.e2e.metrics_workload import BROKEN, JUDGED, SLOW, STATIC, Workload
from tests.e2e.schedulers import stowplan
from tests.e2e.scraping import ScrapedFamily, scrape
from tests.e2e.static_stage import daemon, environment
from tests.integration.extender_kit import extender
from tests.prometheus import Prometheus, require_prometheus, run_prometheus
from tests.waiting import wait_for

Json = dict[str, Any]
Families = dict[str, ScrapedFamily]

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
UPSTREAM, OURS = "upstream", "ours"
CONFIG = f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: true}}
clientConnection: {{kubeconfig: "{{kubeconfig}}"}}
extenders:
- urlPrefix: http://127.0.0.1:EXTENDER_PORT
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 1
  nodeCacheCapable: true
  managedResources: [{{name: {JUDGED}, ignoredByScheduler: true}}]
"""
EXTENDER = f"""\
from stowplan.extender import Algorithm, ExtenderFilterResult, HostPriority

class Judge(Algorithm):
    def filter(self, extender_args):
        if extender_args.Pod["metadata"]["name"].startswith("{BROKEN}"):
            raise RuntimeError("broken")
        return ExtenderFilterResult(NodeNames=list(extender_args.NodeNames))

    def prioritize(self, extender_args):
        return [HostPriority(name, 11) for name in extender_args.NodeNames]
"""
EXTENDER_CONFIG = """\
kubeapi: &kubeapi !Kubeapi {{kubeconfig: "{kubeconfig}"}}
data_provider: !ClusterDataProvider
  kubeapi: *kubeapi
  prometheus: !Prometheus {{host: "http://127.0.0.1", port: {port}}}
algorithms: [judge:Judge]
algorithm: !Judge
"""
SLOW_PLUGIN = """\
import time
import stowplan

@stowplan.filter
def slow(pod, node):
    time.sleep(0.11)
    return True
"""
SLOW_PROFILE = f"""\
profiles:
- schedulerName: {SLOW}
  plugins: {{multiPoint: {{enabled: [{{name: slow}}]}}}}
"""


@dataclass
class Scrapes:
    """What both programs show after the same work; `standby`: Stowplan before it led."""

    upstream: Families
    ours: Families
    standby: Families
    prometheus: Prometheus
    our_url: str


@contextmanager
def both_programs(folder: Path) -> Iterator[Scrapes]:
    """See the module. Everything has happened, and is stored in Prometheus, when it yields."""
    require_prometheus()
    require_binaries("etcd", "kube-apiserver", "kubectl", "kube-scheduler")
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane())
        plane.kubectl("apply", "-f", str(MONITORING / "rbac.yaml"), check=True)
        token = plane.service_account_token("monitoring", "prometheus")
        _refuse_some_bindings(plane)
        web, port, slow_port, judge_port, static_port = (free_port() for _ in range(5))
        config = CONFIG.replace("EXTENDER_PORT", str(judge_port))

        leader = plane.start_scheduler(config, "--leader-elect=true", *_delegation(plane))
        targets = {
            "kube-scheduler": {UPSTREAM: leader.url.removeprefix("https://"), OURS: _local(port)},
            "stowplan": {OURS: _local(slow_port)},
            "wca-scheduler": {OURS: _local(judge_port)},
            "static-scheduler": {OURS: _local(static_port)},
        }
        settings = _prometheus_config(folder, token, targets)
        prometheus = stack.enter_context(run_prometheus(folder / "prometheus", web, settings))

        (folder / "judge.py").write_text(EXTENDER)
        text = EXTENDER_CONFIG.format(kubeconfig=plane.kubeconfig, port=web)
        judge = extender(folder, text, f"--plugins={folder}", port=judge_port)
        extender_url = stack.enter_context(judge).url
        environ = environment(KUBECONFIG=str(plane.kubeconfig))
        words = ["--daemon", f"--name={STATIC}"]
        stack.enter_context(daemon(folder / "static.log", environ, *words, port=static_port))
        (folder / "slow.py").write_text(SLOW_PLUGIN)
        words = ["--leader-elect=false", "--verify-decisions=1", f"--secure-port={slow_port}"]
        words += [f"--plugin={folder / 'slow.py'}:slow"]
        stack.enter_context(stowplan(plane, config + SLOW_PROFILE, *words, name="slow"))

        # Its first look comes five seconds after its start, and the work must come later.
        up = f'up{{cluster="{UPSTREAM}"}} == 1'
        wait_for("Prometheus to scrape kube-scheduler", lambda: prometheus.now(up))
        url = f"{leader.url}/metrics"
        first = Workload(plane, lambda: scrape(url, token), prometheus, UPSTREAM)
        upstream = first.work()
        first.trouble()
        waits = "Attempting to acquire leader lease..."
        with stowplan(plane, config, f"--secure-port={port}", started=waits):
            our_url = f"https://{_local(port)}/metrics"
            standby = scrape(our_url, token)
            leader.stop()
            second = Workload(plane, lambda: scrape(our_url, token), prometheus, OURS)
            ours = second.work()
            second.trouble()
            second.others(extender_url)
            yield Scrapes(upstream, ours, standby, prometheus, our_url)


def _local(port: int) -> str:
    return f"127.0.0.1:{port}"


def _delegation(plane: ControlPlane) -> list[str]:
    """kube-scheduler asks the API server about its clients, and opens no more than health."""
    kubeconfig = plane.directory / "kube-scheduler.kubeconfig"
    return [
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authorization-always-allow-paths=/healthz,/readyz,/livez",
    ]


def _prometheus_config(folder: Path, token: str, targets: dict[str, dict[str, str]]) -> Json:
    """The jobs of scrape.yaml, with addresses and a token file in place of service discovery."""
    (folder / "token").write_text(token)
    jobs: list[Json] = yaml.safe_load((MONITORING / "scrape.yaml").read_text())["scrape_configs"]
    for job in jobs:
        del job["kubernetes_sd_configs"], job["relabel_configs"]
        if "authorization" in job:
            job["authorization"]["credentials_file"] = str(folder / "token")
        job["static_configs"] = [
            {"targets": [address], "labels": {"cluster": cluster}}
            for cluster, address in targets.pop(job["job_name"]).items()
        ]
    assert not targets, "a job is missing in scrape.yaml"
    return {
        "global": {"scrape_interval": "500ms", "evaluation_interval": "1s"},
        "rule_files": [str(MONITORING / "rules.yaml")],
        "scrape_configs": jobs,
    }


def _refuse_some_bindings(plane: ControlPlane) -> None:
    """500 for pods `broken-...`: the webhook that the API server must ask does not answer."""
    bindings = {
        "operations": ["CREATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["pods/binding"],
    }
    is_broken = f"object.metadata.name.startsWith('{BROKEN}')"
    plane.api.create(
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        {
            "metadata": {"name": BROKEN},
            "webhooks": [
                {
                    "name": "broken.example.com",
                    "clientConfig": {"url": f"https://{_local(free_port())}/"},
                    "rules": [bindings],
                    "matchConditions": [{"name": "broken", "expression": is_broken}],
                    "failurePolicy": "Fail",
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "timeoutSeconds": 1,
                }
            ],
        },
    )
