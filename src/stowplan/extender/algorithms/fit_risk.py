"""`!FitRisk`: rejects nodes where an app's contention risk is too high, and prefers a good fit.

Both are queries to Prometheus with two `%s`, for the app and for how far back to look; each returns
a number from 0 to 1 by the label `node`. The algorithm uses cached results. Without one (the app's
first pod, Prometheus unreachable) it accepts every node and scores none.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, runtime_checkable

from stowplan.api.extender_protocol import ExtenderArgs, ExtenderFilterResult, HostPriority
from stowplan.errors import ConfigError
from stowplan.extender.algorithm import Algorithm
from stowplan.extender.algorithms import gauges
from stowplan.extender.algorithms.apps import NO_APP_LABEL, app_of, node_names
from stowplan.extender.algorithms.arithmetic import is_number
from stowplan.extender.data import AppName, NodeName
from stowplan.extender.metrics import Metric, MetricRegistry
from stowplan.extender.prometheus import Prometheus, Result
from stowplan.logs import V4, get_logger, kv

log = get_logger(__name__)

#: Each app costs two queries, again and again.
MOST_APPS: Final = 1000
TOO_MANY_APPS: Final = "too_many_apps"
UNKNOWN_RISK: Final = "unknown_risk"


@runtime_checkable
class Answers(Protocol):
    """What the algorithm needs of Prometheus."""

    def ask(self, query: str, use_time: bool = True) -> Result: ...


class FitRisk(Algorithm):
    """Risk below the threshold; the better the fit, the higher the score."""

    def __init__(
        self,
        *,
        risk_threshold: float,
        risk_query: str,
        fit_query: str,
        lookback: str,
        time: str | None = None,
        k8s_namespace: str = "default",
        prometheus_ip: str | None = None,
        prometheus: Answers | None = None,
        max_node_score: float = 10.0,
    ) -> None:
        """`prometheus_ip` is an address, such as http://10.0.0.1:9090; `prometheus` is a
        `!Prometheus` that others may use, too, and has a `time` of its own."""
        _check_query("risk_query", risk_query)
        _check_query("fit_query", fit_query)
        #: Parts to start with the service: the Prometheus client, if this algorithm owns it.
        self.parts: tuple[Any, ...] = ()
        if prometheus is None:
            if not prometheus_ip:
                raise ConfigError("it needs prometheus_ip or prometheus")
            prometheus = Prometheus(prometheus_ip, time=time)
            self.parts = (prometheus,)
        elif prometheus_ip or time:
            raise ConfigError("prometheus has an address and a time of its own")
        self.risk_threshold = risk_threshold
        self.max_node_score = max_node_score
        self._risk_query = risk_query
        self._fit_query = fit_query
        self._lookback = lookback
        self._namespace = k8s_namespace
        self._prometheus = prometheus
        self._apps: set[AppName] = set()
        self.metrics = gauges.new_registry()

    def __str__(self) -> str:
        return "FitRiskAlgorithm"

    def filter(self, extender_args: ExtenderArgs) -> ExtenderFilterResult:
        names = node_names(extender_args)
        app = self._judged_app(extender_args)
        risks = self._values(self._risk_query, app) if app else {}
        if not risks:
            if app:
                self._count(UNKNOWN_RISK)
            return ExtenderFilterResult(NodeNames=list(names))
        failed = {}
        for name in names:
            risk = risks.get(name)
            if risk is None:
                failed[name] = "No risk is known for the node."
            elif not risk < self.risk_threshold:
                failed[name] = f"Risk {risk:.2f} is not below {self.risk_threshold:.2f}."
        log.log(V4, "Filtered nodes by risk", extra=kv(app=app, failed=failed))
        return ExtenderFilterResult(
            NodeNames=[name for name in names if name not in failed], FailedNodes=failed
        )

    def prioritize(self, extender_args: ExtenderArgs) -> list[HostPriority]:
        app = self._judged_app(extender_args)
        fits = self._values(self._fit_query, app) if app else {}
        return [
            HostPriority(name, int(fits[name] * self.max_node_score))
            for name in sorted(node_names(extender_args))
            if name in fits
        ]

    def get_metrics_registry(self) -> MetricRegistry:
        return self.metrics

    def _judged_app(self, args: ExtenderArgs) -> AppName:
        """Empty if the pod is none of ours."""
        metadata = args.Pod.get("metadata")
        if not isinstance(metadata, dict) or metadata.get("namespace") != self._namespace:
            return ""
        app = app_of(args.Pod)
        if not app:
            self._count(NO_APP_LABEL)
        elif app not in self._apps and len(self._apps) >= MOST_APPS:
            self._count(TOO_MANY_APPS)
            return ""
        else:
            self._apps.add(app)
        return app

    def _values(self, query: str, app: AppName) -> dict[NodeName, float]:
        quoted = app.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        result = self._prometheus.ask(query % (quoted, self._lookback))
        return {
            row.labels["node"]: row.value
            for row in result.rows
            if "node" in row.labels and is_number(row.value)
        }

    def _count(self, reason: str) -> None:
        self.metrics.add(Metric(gauges.PODS_NOT_JUDGED, 1, {"reason": reason}))


def _check_query(name: str, query: str) -> None:
    try:
        query % ("app", "5m")
    except (TypeError, ValueError) as error:
        problem = f"needs two %s, for the app and the time to look back ({error})"
        raise ConfigError(problem, where=name) from None
