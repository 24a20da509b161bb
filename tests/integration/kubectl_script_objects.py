"""Second half of the kubectl script: apply, the other kinds, watches and deletion."""

from __future__ import annotations

from tests.integration.kubectl_manifests import (
    RUNNING,
    binding,
    manifest,
    pod,
    workload,
)
from tests.integration.kubectl_script import PODS_PATH, Step, step

_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_VOLUME = {
    "capacity": {"storage": "10Gi"},
    "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
    "persistentVolumeReclaimPolicy": "Retain",
    "storageClassName": "transcript-fast",
    "hostPath": {"path": "/data"},
}

APPLY_STEPS = (
    step("apply -f -", pod("applied", labels={"a": "1"})),
    step("apply -f -", pod("applied", labels={"a": "1"})),
    step("apply -f -", pod("applied", labels={"b": "2"})),
    step("get pod applied --show-labels"),
    step("apply -f -", pod("applied", nodeSelector={"x": "y"})),
    step("apply -f - --dry-run=server", pod("applied", labels={"b": "3"})),
    step("apply -f -", pod("Bad_Name")),
    step("apply -f - --server-side", manifest("ConfigMap", "ssa", data={"a": "1", "b": "1"})),
    step("apply -f - --server-side", manifest("ConfigMap", "ssa", data={"a": "1", "b": "1"})),
    step("get configmap ssa -o yaml --show-managed-fields"),
    step("apply -f - --server-side", manifest("ConfigMap", "ssa", data={"a": "1"})),
    step("get configmap ssa -o jsonpath={.data}"),
    step(
        "apply -f - --server-side --field-manager=other",
        manifest("ConfigMap", "ssa", data={"c": "3"}),
    ),
    step(
        "apply -f - --server-side --field-manager=other",
        manifest("ConfigMap", "ssa", data={"a": "2"}),
    ),
    step(
        "apply -f - --server-side --field-manager=other --force-conflicts",
        manifest("ConfigMap", "ssa", data={"a": "2"}),
    ),
    step("get configmap ssa -o yaml --show-managed-fields"),
    step("label configmap ssa by=hand"),
    step("patch configmap ssa --type=merge -p", '{"data":{"a":"by hand"}}'),
    step("get configmap ssa -o yaml --show-managed-fields"),
    step("apply -f - --server-side", manifest("ConfigMap", "ssa", data={"a": "1"})),
    step("apply -f - --server-side", manifest("ConfigMap", "ssa", data={"a": "by hand"})),
    step("apply -f - --server-side", workload("Deployment", "ssa-web")),
    step(
        "apply -f - --server-side --field-manager=other",
        workload("Deployment", "ssa-web", replicas=5),
    ),
    step("get deployment ssa-web -o yaml --show-managed-fields"),
    step("apply -f -", workload("Deployment", "web")),
    step("apply -f -", workload("Deployment", "web", replicas=3)),
    step("get deployment web -o yaml"),
)

OBJECT_STEPS = (
    step("create -f -", workload("ReplicaSet", "web-rs")),
    step("create -f -", workload("StatefulSet", "web-sts", serviceName="web")),
    step("create job web-job --image=registry.example/web:1"),
    step("create configmap settings --from-literal=a=b"),
    # These commands use Go's typed clients, which send protobuf.
    step("create secret generic secrets --from-literal=password=hunter2"),
    step("get secret secrets -o yaml"),
    step("create deployment typed --image=registry.example/a --image=registry.example/b"),
    step("create deployment typed --image=registry.example/a --replicas=2 --port=80"),
    step("get deployment typed -o yaml"),
    step("get job web-job -o yaml"),
    step("set image deployment/web web=registry.example/web:2"),
    step("set image deployment/nope web=registry.example/web:2"),
    step("create priorityclass transcript-high --value=1000 --description=important"),
    step("create -f -", pod("important", priorityClassName="transcript-high")),
    step("get pod important -o jsonpath={.spec.priority}/{.spec.preemptionPolicy}"),
    step("create poddisruptionbudget web --selector=app=web --min-available=1"),
    step("create service clusterip web --tcp=80:8080"),
    step(
        "create -f -",
        manifest(
            "StorageClass",
            "transcript-fast",
            api="storage.k8s.io/v1",
            provisioner="example.com/disk",
            volumeBindingMode="WaitForFirstConsumer",
        ),
    ),
    step("create -f -", manifest("PersistentVolume", "transcript-volume", spec=_VOLUME)),
    step(
        "create -f -",
        manifest(
            "PersistentVolumeClaim", "claim", spec={**_CLAIM, "storageClassName": "transcript-fast"}
        ),
    ),
    # kube-apiserver protects volumes in use with finalizers, which a controller takes off again:
    # the embedded server has neither.
    step("patch pvc claim --type=merge -p", '{"metadata":{"finalizers":null,"labels":{"a":"b"}}}'),
    step(
        "patch pv transcript-volume --type=merge -p",
        '{"metadata":{"finalizers":null,"labels":{"a":"b"}}}',
    ),
    step(
        "create -f -",
        manifest(
            "Lease", "lease", api="coordination.k8s.io/v1", spec={"holderIdentity": "somebody"}
        ),
    ),
    step("get deployment,replicaset,statefulset,job"),
    step("get deployment,replicaset,statefulset,job -o wide"),
    step("get pdb,cm,lease,pvc"),
    step("get pdb,cm,lease,pvc -o wide"),
    step("get svc"),
    step("get svc -o wide"),
    step("get pv transcript-volume -o wide"),
    step("get sc transcript-fast"),
    step("get priorityclass transcript-high system-node-critical -o wide"),
    step("describe deployment web"),
    step("describe pdb web"),
    step("describe pvc claim"),
    step("describe priorityclass transcript-high"),
    step("describe lease lease"),
    step("create priorityclass transcript-high --value=1"),
    step("create priorityclass system-fake --value=1"),
    step("drain transcript-b"),
    step("drain transcript-a"),
    step("uncordon transcript-a"),
    step("replace --force -f -", manifest("ConfigMap", "settings", data={"c": "d"})),
    step("get -f -", manifest("ConfigMap", "settings")),
    step("auth can-i create pods"),
    step("version"),
)

WATCH_STEPS = (
    Step(
        "get pods --watch-only",
        during=(
            step("create -f -", pod("watched")),
            step(
                f"create --raw {PODS_PATH}/watched/binding -f -", binding("watched", "transcript-a")
            ),
            step("patch pod watched --subresource=status --type=strategic -p", RUNNING),
            step("delete pod watched --grace-period=0 --force"),
        ),
        until=("Running", "Terminating|Running"),
    ),
    Step(
        "get pods -w --output-watch-events -l watch=me -o wide",
        during=(
            step("create -f -", pod("seen", labels={"watch": "me"})),
            step("create -f -", pod("unseen")),
            step("label pod seen more=labels"),
            step("label pod seen watch-"),
            step("label pod unseen watch=me"),
            step("delete pod unseen"),
        ),
        until=("ADDED .*unseen", "DELETED .*unseen"),
    ),
    Step(
        "get nodes transcript-a -w -o name",
        during=(step("cordon transcript-a"), step("uncordon transcript-a")),
        until=("transcript-a",) * 3,
    ),
    Step(
        "events --watch --for pod/seen",
        during=(
            step(
                "create -f -",
                manifest(
                    "Event",
                    "seen.1",
                    involvedObject={
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "namespace": "transcripts",
                        "name": "seen",
                    },
                    type="Normal",
                    reason="Seen",
                    message="somebody looked",
                    firstTimestamp="2026-01-01T00:00:00Z",
                    lastTimestamp="2026-01-01T00:00:00Z",
                    count=1,
                    source={"component": "transcripts"},
                ),
            ),
        ),
        until=("somebody looked",),
    ),
)

DELETE_STEPS = (
    step("delete pod nope"),
    step("delete pod nope --ignore-not-found"),
    step("delete pod pending"),
    step("get pod pending"),
    step("delete pod bound --wait=false"),
    step("get pod bound"),
    step("get pod bound -o jsonpath={.metadata.deletionGracePeriodSeconds}"),
    step("delete pod bound --grace-period=5 --wait=false"),
    step("get pod bound -o jsonpath={.metadata.deletionGracePeriodSeconds}"),
    step("delete pod bound --wait --timeout=2s"),
    step("delete pod bound --now --wait=false"),
    step("delete pod bound --grace-period=0 --force"),
    step("get pod bound"),
    Step(
        "wait --for=delete pod/applied --timeout=30s",
        during=(step("delete pod applied"),),
        until=("condition met",),
    ),
    step("delete -f -", pod("gated")),
    step("delete pods -l app=web"),
    step("delete pods --all --dry-run=server"),
    step("delete pods --all"),
    step("get pods"),
    step("delete deployment,replicaset,statefulset,job --all"),
    step("delete pdb,cm,secret,svc,lease,events --all"),
    step("get all"),
    step("delete priorityclass transcript-high"),
    step("delete priorityclass system-node-critical"),
    step("delete sc transcript-fast"),
    step("delete pvc claim"),
    step("delete pv transcript-volume"),
    step("get pvc,pv"),
    step("delete nodes -l suite=transcripts"),
    step("delete namespace transcripts --wait=false"),
    step("delete namespace default"),
)
