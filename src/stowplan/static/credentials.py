"""Which cluster the static scheduler talks to, in the original's order.

The kubeconfig file of the flag or of KUBECONFIG, then the token of a service account in its
directory; and last, what the original did not know, kubectl's own ~/.kube/config.
"""

from __future__ import annotations

import os
from pathlib import Path

from stowplan.api.kubeconfig import (
    SERVICE_ACCOUNT_PATH,
    ClusterConfig,
    in_cluster_config,
    load_cluster_config,
)
from stowplan.errors import KubeconfigError
from stowplan.static.lines import log


def find_cluster(kubeconfig: str | None, base_path: str | None) -> ClusterConfig:
    """KubeconfigError says what is missing where. A `base_path` that was asked for must be good."""
    from_environment = os.environ.get("KUBECONFIG")
    if kubeconfig or from_environment:
        cluster = load_cluster_config(kubeconfig=kubeconfig)
        log.debug("Using configuration from kubeconfig %s", kubeconfig or from_environment)
        return cluster
    directory = base_path or SERVICE_ACCOUNT_PATH
    has_token = Path(directory, "token").exists()
    if base_path and not has_token:
        raise KubeconfigError(
            f"there is no token in {directory}, and no kubeconfig was named either",
            where="--incluster-base-path or SCHED_INCLUSTER_BASE_PATH",
        )
    if has_token:
        cluster = in_cluster_config(directory)
        log.debug("Using configuration from token in %s", directory)
        return cluster
    home = Path("~/.kube/config").expanduser()
    if home.exists():
        cluster = load_cluster_config(kubeconfig=str(home))
        log.debug("Using configuration from kubeconfig %s", home)
        return cluster
    raise KubeconfigError(
        f"No kubeconfig or token found: no --kubeconfig, KUBECONFIG is not set, there is no "
        f"{directory}/token, and no {home}"
    )
