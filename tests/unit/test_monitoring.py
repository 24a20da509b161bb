"""deploy/monitoring: rules, their tests, the dashboard and the pages about them fit together."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.prometheus import require_prometheus
from tools import dashboard
from tools.dashboard_panels import queries

Json = dict[str, Any]
REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "deploy" / "monitoring"
RUNBOOK = (REPOSITORY / "docs" / "alerts.md").read_text()
RULES: list[Json] = [
    rule
    for group in yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
TESTS: list[Json] = yaml.safe_load((FOLDER / "rules_test.yaml").read_text())["tests"]


@pytest.mark.parametrize("command", ["check rules rules.yaml", "test rules rules_test.yaml"])
def test_promtool_accepts_the_rules(command: str) -> None:
    promtool = require_prometheus("promtool")
    done = subprocess.run(
        [promtool, *command.split()], cwd=FOLDER, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_the_jobs(tmp_path: Path) -> None:
    """Debian's build has no service discovery of Kubernetes; the rest is checked."""
    promtool = require_prometheus("promtool")
    config = yaml.safe_load((FOLDER / "scrape.yaml").read_text())
    for job in config["scrape_configs"]:
        assert job.pop("kubernetes_sd_configs")[0]["role"] == "pod"
    file = tmp_path / "scrape.yaml"
    file.write_text(yaml.safe_dump(config))
    done = subprocess.run(
        [promtool, "check", "config", "--syntax-only", file],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_jobs_are_those_of_the_rules() -> None:
    config = yaml.safe_load((FOLDER / "scrape.yaml").read_text())
    named = "|".join(sorted(job["job_name"] for job in config["scrape_configs"]))
    in_rules = re.findall(r'job=~"([^"]+)"', ALERTS["SchedulerDown"]["expr"])
    assert ["|".join(sorted(jobs.split("|"))) for jobs in in_rules] == [named]


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_is_seen_firing_and_quiet(alert: str) -> None:
    """In one test, by cluster: promtool compares all alerts that fire with those expected."""
    (test,) = [test for test in TESTS if alert in re.split(r"\W+", test["name"])]
    clusters = set(re.findall(r'cluster="(\w)"', yaml.safe_dump(test["input_series"])))
    early, late = test["promql_expr_test"]
    assert early["exp_samples"] == [], "not at once"
    firing = {
        cluster
        for sample in late["exp_samples"]
        for name, cluster in re.findall(r'alertname="(\w+)", cluster="(\w)"', sample["labels"])
        if name == alert
    }
    assert firing, "fires"
    assert clusters - firing, "is quiet elsewhere"


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_has_a_severity_and_a_runbook(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert page.endswith("/docs/alerts.md")
    assert anchor == alert.lower()
    assert f"\n### {alert}\n\n" in RUNBOOK
    row = f"| [{alert}](../../docs/alerts.md#{anchor}) | {rule['labels']['severity']} |"
    assert row in (FOLDER / "README.md").read_text()


def test_the_runbook_has_no_alert_that_is_gone() -> None:
    assert set(re.findall(r"^### (\w+)$", RUNBOOK, re.MULTILINE)) == ALERTS.keys()


def test_the_dashboard_is_up_to_date() -> None:
    assert dashboard.FILE.read_text() == dashboard.text(), "run `make docs` and commit the file"


def test_the_dashboard_is_one_that_grafana_can_import() -> None:
    found = json.loads(dashboard.FILE.read_text())
    panels: list[Json] = found["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24, panel["title"]
        assert not cells & taken, f"{panel['title']} covers another panel"
        taken |= cells
        if panel["type"] == "row":
            continue
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == sorted(set(letters)), panel["title"]
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
    variables = [variable["name"] for variable in found["templating"]["list"]]
    assert variables == ["datasource", "cluster", "job", "instance"]


def test_every_query_is_on_the_dashboard_and_uses_known_variables() -> None:
    text = json.dumps(json.loads(dashboard.FILE.read_text())["panels"])
    for name, query in queries().items():
        assert json.dumps(query) in text, name
        used = set(re.findall(r"\$(\w+)", query))
        assert "cluster" in used, name
        assert used <= {"cluster", "job", "instance", "__rate_interval"}, name
