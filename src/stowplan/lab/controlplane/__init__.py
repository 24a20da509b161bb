"""The real Kubernetes control plane for tests and benchmarks.

``python -m stowplan.controlplane build`` compiles etcd, kube-apiserver, kube-scheduler,
kube-controller-manager, kubectl and KWOK from their published Go modules into a cache outside the
checkout; `ControlPlane` starts them on loopback ports in a temporary directory. Everything here
uses the standard library only, so that it runs before an environment has been set up.
"""

from stowplan.lab.controlplane.binaries import BinaryMissing, find_binary
from stowplan.lab.controlplane.cluster import ControlPlane
from stowplan.lab.controlplane.processes import ControlPlaneError

__all__ = ["BinaryMissing", "ControlPlane", "ControlPlaneError", "find_binary"]
