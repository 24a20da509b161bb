"""Stand-ins for kube-controller-manager: the pods of Deployments, ReplicaSets, StatefulSets, Jobs.

`controller.WorkloadController` is one task with a queue of objects to reconcile. `replica_sets`,
`deployments`, `stateful_sets` and `jobs` reconcile one object each; `garbage` deletes the
dependents of deleted owners. All of them read and write through `objects`, whose `owner_index`
knows which object belongs to which owner.

A reconciliation is synchronous: it reads the stored objects and writes the next step, and no
request runs in between. It therefore never meets a conflict, and a client that does retries as
against kube-apiserver.

docs/embedded-cluster.md lists what kube-controller-manager does beyond this.
"""
