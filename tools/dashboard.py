"""Writes deploy/monitoring/dashboard.json, the Grafana dashboard, from `tools.dashboard_panels`.

`make docs` runs it. A test fails when the file in the repository is not what this would write.
"""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any, Final

from tools.dashboard_panels import ROWS, Panel

Json = dict[str, Any]

FILE: Final = Path(__file__).parents[1] / "deploy" / "monitoring" / "dashboard.json"
#: Of Grafana 10.4; later versions convert it when they load it.
SCHEMA_VERSION: Final = 39
WIDTH: Final = 24
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def dashboard() -> Json:
    """The whole dashboard, as Grafana imports it."""
    return {
        "uid": "stowplan",
        "title": "Stowplan / Scheduler",
        "description": "For Stowplan, and for kube-scheduler in all but the last three rows.",
        "tags": ["kubernetes", "scheduler", "stowplan"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": _variables()},
        "panels": _panels(),
    }


def _variables() -> list[Json]:
    where = "scheduler_pending_pods"
    return [
        {
            "name": "datasource",
            "label": "Data source",
            "type": "datasource",
            "query": "prometheus",
            "hide": 0,
            "includeAll": False,
            "multi": False,
            "regex": "",
        },
        # A missing label matches ".*", too: most Prometheus servers have no label `cluster`.
        _variable("cluster", f"label_values({where}, cluster)", multi=False, every=".*"),
        _variable("job", f'label_values({where}{{cluster=~"$cluster"}}, job)', every=".+"),
        _variable(
            "instance",
            f'label_values({where}{{cluster=~"$cluster", job=~"$job"}}, instance)',
            every=".+",
        ),
    ]


def _variable(name: str, query: str, *, every: str, multi: bool = True) -> Json:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "refresh": 2,
        "sort": 1,
        "hide": 0,
        "includeAll": True,
        "allValue": every,
        "multi": multi,
        "regex": "",
        "current": {"selected": True, "text": "All", "value": "$__all"},
    }


def _panels() -> list[Json]:
    numbers, y = count(1), 0
    found: list[Json] = []
    for title, panels in ROWS.items():
        row = {"type": "row", "title": title, "collapsed": False, "panels": []}
        found.append(row | {"id": next(numbers), "gridPos": _place(0, y, WIDTH, 1)})
        x, y, height = 0, y + 1, 0
        for panel in panels:
            if x + panel.width > WIDTH:
                x, y = 0, y + height
            height = 4 if panel.kind == "stat" else 8
            place = _place(x, y, panel.width, height)
            found.append(_panel(panel) | {"id": next(numbers), "gridPos": place})
            x += panel.width
        y += height
    return found


def _place(x: int, y: int, width: int, height: int) -> Json:
    return {"x": x, "y": y, "w": width, "h": height}


def _panel(panel: Panel) -> Json:
    is_stat = panel.kind == "stat"
    targets = [
        {
            "refId": letter,
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": query,
            "legendFormat": legend or "__auto",
            "instant": is_stat,
            "range": not is_stat,
        }
        for letter, (query, legend) in zip("ABCDEF", panel.targets, strict=False)
    ]
    # A value whose legend is what matters: a version, the name of a leader.
    shows_name = is_stat and bool(panel.targets[0][1])
    stat_options = {
        "colorMode": "none",
        "graphMode": "none",
        "textMode": "name" if shows_name else "value",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }
    graph_options = {
        "legend": {
            "calcs": ["lastNotNull", "max"],
            "displayMode": "table",
            "placement": "bottom",
            "showLegend": True,
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    custom = {"drawStyle": "line", "fillOpacity": 10, "showPoints": "never", "spanNulls": True}
    defaults = {"unit": panel.unit} | ({} if is_stat else {"min": 0, "custom": custom})
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": stat_options if is_stat else graph_options,
        "targets": targets,
    }


def text() -> str:
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
