"""Ready-made descriptions: `generate: {preset: web}`.

Written as a user would write them; docs/traces.md says what each is for. `nodeCount` and
`podCount` make any of them as large as one likes.
"""

from __future__ import annotations

from typing import Any

_ZONES = ["zone-a", "zone-b", "zone-c"]

PRESETS: dict[str, dict[str, Any]] = {
    "small": {
        "pools": [{"name": "node", "count": 3, "cpu": 4, "memory": "16Gi", "zones": _ZONES}],
        "applications": [
            {
                "name": "job",
                "cpu": {"choice": ["250m", "500m", 1]},
                "memory": {"choice": ["256Mi", "512Mi", "1Gi"]},
                "duration": {"uniform": ["30s", "3m"]},
            }
        ],
        "arrivals": {"kind": "poisson", "count": 30, "over": "10m"},
    },
    "web": {
        "pools": [
            {
                "name": "worker",
                "count": 30,
                "cpu": 16,
                "memory": "64Gi",
                "zones": _ZONES,
                "drains": {"every": "1h", "lasts": "10m"},
            }
        ],
        "priorityClasses": [{"name": "serving", "value": 1000}],
        "applications": [
            {
                "name": "frontend",
                "weight": 3,
                "initial": 60,
                "cpu": "500m",
                "memory": "512Mi",
                "duration": {"lognormal": {"median": "3h", "sigma": 1.0}, "min": "1m"},
                "priorityClass": "serving",
                "spread": "zone",
                "apart": "node",
            },
            {
                "name": "api",
                "weight": 2,
                "initial": 30,
                "cpu": {"choice": [1, 2], "weights": [3, 1]},
                "memory": {"choice": ["1Gi", "2Gi"]},
                "duration": {"lognormal": {"median": "4h", "sigma": 1.0}, "min": "1m"},
                "priorityClass": "serving",
                "spread": "zone",
            },
            {
                "name": "cache",
                "weight": 0,
                "initial": 10,
                "cpu": 1,
                "memory": "8Gi",
                "spread": {"by": "zone", "hard": True, "maxSkew": 2},
                "apart": {"by": "node", "hard": True},
            },
        ],
        "arrivals": {
            "kind": "diurnal",
            "count": 900,
            "over": "24h",
            "peak": "14h",
            "swing": 0.8,
        },
    },
    "batch": {
        "pools": [
            {
                "name": "worker",
                "count": 40,
                "cpu": 32,
                "memory": "128Gi",
                "zones": _ZONES,
                "failures": {"meanTimeBetween": "200h", "meanTimeToRepair": "20m"},
            }
        ],
        "applications": [
            {
                "name": "map",
                "weight": 8,
                "cpu": {"lognormal": {"median": 1, "sigma": 0.6}, "max": 8, "step": "250m"},
                "memory": {
                    "lognormal": {"median": "2Gi", "sigma": 0.8},
                    "max": "32Gi",
                    "step": "256Mi",
                },
                "duration": {"lognormal": {"median": "3m", "sigma": 1.2}, "max": "2h"},
            },
            {
                "name": "reduce",
                "weight": 1,
                "cpu": {"choice": [4, 8]},
                "memory": {"choice": ["16Gi", "32Gi"]},
                "duration": {"lognormal": {"median": "10m", "sigma": 0.8}, "max": "4h"},
            },
        ],
        "arrivals": {"kind": "burst", "count": 4000, "every": "6m", "size": {"uniform": [5, 60]}},
    },
    "mixed": {
        "pools": [
            {
                "name": "general",
                "count": 60,
                "cpu": 16,
                "memory": "64Gi",
                "zones": _ZONES,
                "failures": {"meanTimeBetween": "500h", "meanTimeToRepair": "15m"},
                "drains": {"every": "2h", "lasts": "10m"},
            },
            {
                "name": "memory",
                "count": 12,
                "cpu": 16,
                "memory": "256Gi",
                "zones": _ZONES,
                "labels": {"pool": "memory"},
            },
            {
                "name": "gpu",
                "count": 8,
                "cpu": 64,
                "memory": "512Gi",
                "gpu": 8,
                "zones": _ZONES[:2],
                "labels": {"pool": "gpu"},
                "taints": ["nvidia.com/gpu=present:NoSchedule"],
            },
        ],
        "priorityClasses": [
            {"name": "serving", "value": 1000},
            {"name": "spare", "value": -10, "preempts": False},
        ],
        "applications": [
            {
                "name": "web",
                "weight": 30,
                "initial": 120,
                "cpu": {"choice": ["250m", "500m", 1]},
                "memory": {"choice": ["256Mi", "1Gi", "2Gi"]},
                "duration": {"lognormal": {"median": "2h", "sigma": 1.0}, "min": "1m"},
                "priorityClass": "serving",
                "spread": "zone",
            },
            {
                "name": "batch",
                "weight": 60,
                "cpu": {"lognormal": {"median": 1, "sigma": 0.7}, "max": 8, "step": "250m"},
                "memory": {
                    "lognormal": {"median": "2Gi", "sigma": 0.8},
                    "max": "32Gi",
                    "step": "256Mi",
                },
                "duration": {"lognormal": {"median": "5m", "sigma": 1.2}, "max": "3h"},
            },
            {
                "name": "analytics",
                "weight": 6,
                "cpu": 2,
                "memory": {"choice": ["16Gi", "32Gi", "64Gi"]},
                "duration": {"exponential": {"mean": "40m"}, "min": "10s"},
                "nodeSelector": {"pool": "memory"},
            },
            {
                "name": "training",
                "weight": 4,
                "cpu": 8,
                "memory": "32Gi",
                "gpu": {"choice": [1, 2, 4, 8], "weights": [8, 4, 2, 1]},
                "duration": {"lognormal": {"median": "1h", "sigma": 1.0}, "max": "12h"},
                "tolerations": ["nvidia.com/gpu=present:NoSchedule"],
                "priorityClass": "spare",
            },
        ],
        "arrivals": {"kind": "poisson", "count": 3000, "over": "12h"},
    },
}
