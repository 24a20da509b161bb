"""InterPodAffinity: near some pods, away from others, by the pod's wishes and by theirs."""

from stowplan.plugins.inter_pod_affinity.plugin import InterPodAffinity

__all__ = ["InterPodAffinity"]
