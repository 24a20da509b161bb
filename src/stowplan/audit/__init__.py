"""Audits scheduling: what any scheduler did to a cluster, against what Kubernetes promises.

    from stowplan.audit import audit_history, etcd_history, read_audit_log
    report = audit_history(etcd_history(url), requests=read_audit_log(path))
    report.findings

Shares no code with the scheduler but the decoding of objects, so that an error there does not hide
itself here.
"""

from stowplan.audit.audit_log import AuditTrail, Request, read_audit_log
from stowplan.audit.etcd import (
    APISERVER_FLAGS,
    Etcd,
    EtcdError,
    Revision,
    etcd_history,
    read_history,
    save_history,
)
from stowplan.audit.findings import KINDS, Finding, Options, Report
from stowplan.audit.history import audit_history
from stowplan.audit.items import AUDITED, Item, decode_item
from stowplan.audit.live import audit_cluster

__all__ = [
    "APISERVER_FLAGS",
    "AUDITED",
    "KINDS",
    "AuditTrail",
    "Etcd",
    "EtcdError",
    "Finding",
    "Item",
    "Options",
    "Report",
    "Request",
    "Revision",
    "audit_cluster",
    "audit_history",
    "decode_item",
    "etcd_history",
    "read_audit_log",
    "read_history",
    "save_history",
]
