"""Claims that kube-controller-manager would make from templates, for a pod that is asked about.

The claims exist only while the pod is judged, and hold no devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from stowplan.api.device_objects import ClaimMeta, ResourceClaim, ResourceClaimSpec
from stowplan.api.objects import OwnerReference, Pod, PodResourceClaimStatus
from stowplan.api.resources import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from stowplan.apiserver.device_strategies import default_claim_spec
from stowplan.cluster.catalog import Catalog
from stowplan.plugins.dra.facts import DeviceFacts


class Supposed(NamedTuple):
    """A pod as it is once its claims are made, and those claims."""

    pod: Pod
    claims: Sequence[ResourceClaim] = ()
    #: Templates that are not known, as the pod names them.
    unknown: Sequence[str] = ()


def with_template_claims(pod: Pod, catalog: Catalog) -> Supposed:
    """Make a claim for each entry of the pod that names a template and has no claim yet."""
    statuses = pod.status.resource_claim_statuses or ()
    made_before = {status.name for status in statuses}
    claims: list[ResourceClaim] = []
    unknown: list[str] = []
    made: list[PodResourceClaimStatus] = []
    for entry in pod.spec.resource_claims or ():
        name = entry.resource_claim_template_name
        if name is None or entry.name in made_before:
            continue
        template = catalog[RESOURCE_CLAIM_TEMPLATES].get(name, pod.metadata.namespace)
        if template is None:
            unknown.append(name)
            continue
        claim = _claim(pod, entry.name, template.spec.spec, catalog)
        claims.append(claim)
        made.append(
            PodResourceClaimStatus(name=entry.name, resource_claim_name=claim.metadata.name)
        )
    if made:
        status = replace(pod.status, resource_claim_statuses=(*statuses, *made))
        pod = replace(pod, status=status)
    return Supposed(pod, claims, unknown)


@contextmanager
def supposing(catalog: Catalog, claims: Sequence[ResourceClaim]) -> Iterator[None]:
    """Let DynamicResources find the claims."""
    if not claims:
        yield
        return
    with catalog.shared(DeviceFacts).supposing(claims):
        yield


def _claim(pod: Pod, entry: str, spec: ResourceClaimSpec, catalog: Catalog) -> ResourceClaim:
    wire = msgspec.to_builtins(spec)
    default_claim_spec(wire)
    name, namespace = f"{pod.metadata.name}-{entry}", pod.metadata.namespace
    while catalog[RESOURCE_CLAIMS].get(name, namespace) is not None:
        name += "-x"
    owner = OwnerReference(
        kind="Pod", name=pod.metadata.name, uid=pod.uid, api_version="v1", controller=True
    )
    metadata = ClaimMeta(
        name=name, namespace=namespace, uid=f"{pod.uid}/{entry}", owner_references=(owner,)
    )
    return ResourceClaim(metadata=metadata, spec=msgspec.convert(wire, ResourceClaimSpec))
