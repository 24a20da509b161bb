"""An in-memory Kubernetes API server for demos, simulation and tests.

`server.ApiServer` is the whole of it. A request goes through `paths`, `negotiation` and `rest`;
reads end in `reading` and `watching`, writes in `writing` (conform, default, admit, validate),
`deletion` and `pod_actions`; all of them in `store`, which keeps every object once, encoded once.
`kubelet` plays the nodes; `volume_controller`, `ephemeral_volumes`, `claim_controller` and
`workload_controllers` play kube-controller-manager. `kinds` is the table of what is served,
`go_types` of what it is made of.

What differs from kube-apiserver on purpose: events do not expire; volumes and claims get no
protection finalizers, which nothing would remove; a namespace empties itself; managed fields appear
only on objects that were applied.
"""
