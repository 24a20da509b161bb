"""Which resource claims a pod has, and which pod a claim is for."""

from __future__ import annotations

from stowplan.apiserver.history import Json


def has_claims(pod: Json) -> bool:
    """Whether the pod asks for claims, or was given some."""
    status = pod["status"]
    return bool(
        pod["spec"].get("resourceClaims")
        or status.get("resourceClaimStatuses")
        or status.get("extendedResourceClaimStatus")
    )


def claim_names(pod: Json) -> dict[str, str]:
    """Names of claims by what the pod calls them; not those that are still to be made."""
    names = {
        claim["name"]: claim["resourceClaimName"]
        for claim in pod["spec"].get("resourceClaims") or ()
        if claim.get("resourceClaimName")
    }
    for status in pod["status"].get("resourceClaimStatuses") or ():
        if status.get("resourceClaimName"):
            names[status["name"]] = status["resourceClaimName"]
    # The claim that a scheduler made for extended resources.
    extended = pod["status"].get("extendedResourceClaimStatus") or {}
    if extended.get("resourceClaimName"):
        names[""] = extended["resourceClaimName"]
    return names


def consumer_of(pod: Json) -> Json:
    metadata = pod["metadata"]
    return {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}


def owner_of(claim: Json) -> str:
    """The UID of the pod that a claim was made for, "" if it was not made for one."""
    for owner in claim["metadata"].get("ownerReferences") or ():
        if owner["kind"] == "Pod" and owner["apiVersion"] == "v1" and owner.get("controller"):
            return str(owner["uid"])
    return ""


def is_done(pod: Json) -> bool:
    """The pod has ended, or is deleted before it was bound."""
    if pod["status"].get("phase") in ("Succeeded", "Failed"):
        return True
    return "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName")
