"""Requests for extended resources: upstream's tables (extendeddynamicresources_test.go)."""

from __future__ import annotations

import pytest

from stowplan.api.device_objects import ClaimMeta, ResourceClaim
from stowplan.api.objects import (
    Container,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSpec,
    Quantities,
    ResourceRequirements,
)
from stowplan.plugins.dra import extended

GPU, GPU1, INIT = "example.com/gpu", "example.com/gpu1", "example.com/gpuinit"
IMPLICIT = "deviceclass.resource.kubernetes.io/classInit"
CLASSES = {GPU: "class", GPU1: "class1", INIT: "classInit", IMPLICIT: "classInit"}


def _container(name: str, asks: dict[str, int], restart_policy: str | None = None) -> Container:
    requests: Quantities = {resource: str(amount) for resource, amount in asks.items()}
    return Container(name, "", ResourceRequirements(requests=requests), None, restart_policy)


def _pod(*containers: dict[str, int], init: tuple[dict[str, int] | str, ...] = ()) -> Pod:
    """`init`: what init containers ask for; after the word "sidecar", a sidecar."""
    made: list[Container] = []
    is_sidecar = False
    for asks in init:
        if isinstance(asks, str):
            is_sidecar = True
            continue
        kind = "sidecar-con" if is_sidecar else "init-con"
        made.append(_container(f"{kind}{len(made)}", asks, "Always" if is_sidecar else None))
        is_sidecar = False
    regular = tuple(_container(f"con{place}", asks) for place, asks in enumerate(containers))
    meta = ObjectMeta(name="my-pod", namespace="default", uid="1234")
    return Pod(metadata=meta, spec=PodSpec(containers=regular, init_containers=tuple(made) or None))


BOTH = _pod({GPU: 1, GPU1: 2})
TWO = _pod({GPU: 1}, {GPU1: 2})
ONE_INIT = _pod({GPU: 1}, init=({INIT: 2},))
TWO_INIT = _pod({GPU: 1}, init=({INIT: 1}, {INIT: 2}))
SIDECAR = _pod({GPU: 1}, init=({INIT: 1}, "sidecar", {INIT: 1}, {INIT: 2}))
INIT_IMPLICIT = _pod(init=({INIT: 1, IMPLICIT: 2},))
TWO_INIT_IMPLICIT = _pod({GPU: 1}, init=({INIT: 1}, {IMPLICIT: 2}))


@pytest.mark.parametrize(
    ("pod", "resources", "classes", "wanted"),
    [
        (BOTH, [], [], []),
        (BOTH, [GPU], [GPU], [("container-0-request-0", "class", 1)]),
        (BOTH, [GPU, GPU1], [GPU], [("container-0-request-0", "class", 1)]),
        (
            BOTH,
            [GPU, GPU1],
            [GPU, GPU1],
            [("container-0-request-0", "class", 1), ("container-0-request-1", "class1", 2)],
        ),
        (
            TWO,
            [GPU, GPU1],
            [GPU, GPU1],
            [("container-0-request-0", "class", 1), ("container-1-request-0", "class1", 2)],
        ),
        (
            ONE_INIT,
            [GPU, INIT],
            [GPU, INIT],
            [("container-0-request-0", "classInit", 2), ("container-1-request-0", "class", 1)],
        ),
        (
            TWO_INIT,
            [GPU, INIT],
            [GPU, INIT],
            [("container-1-request-0", "classInit", 2), ("container-2-request-0", "class", 1)],
        ),
        (
            SIDECAR,
            [GPU, INIT],
            [GPU, INIT],
            [
                ("container-1-request-0", "classInit", 1),
                ("container-2-request-0", "classInit", 2),
                ("container-3-request-0", "class", 1),
            ],
        ),
    ],
)
def test_requests(
    pod: Pod, resources: list[str], classes: list[str], wanted: list[tuple[str, str, int]]
) -> None:
    known = {name: CLASSES[name] for name in classes}
    requests, _ = extended.requests_and_mappings(pod, resources, known.get)
    found = []
    for one in requests:
        assert one.exactly is not None
        assert one.exactly.allocation_mode == "ExactCount"
        found.append((one.name, one.exactly.device_class_name, one.exactly.count))
    assert found == wanted


@pytest.mark.parametrize(
    ("pod", "resources", "wanted"),
    [
        (
            BOTH,
            [GPU, GPU1],
            [("container-0-request-0", "con0", GPU), ("container-0-request-1", "con0", GPU1)],
        ),
        (
            INIT_IMPLICIT,
            [GPU, INIT, IMPLICIT],
            [
                ("container-0-request-0", "init-con0", IMPLICIT),
                ("container-0-request-1", "init-con0", INIT),
            ],
        ),
        (
            TWO,
            [GPU, GPU1],
            [("container-0-request-0", "con0", GPU), ("container-1-request-0", "con1", GPU1)],
        ),
        (
            ONE_INIT,
            [GPU, INIT],
            [("container-0-request-0", "init-con0", INIT), ("container-1-request-0", "con0", GPU)],
        ),
        (
            TWO_INIT,
            [GPU, INIT],
            [
                ("container-1-request-0", "init-con0", INIT),
                ("container-1-request-0", "init-con1", INIT),
                ("container-2-request-0", "con0", GPU),
            ],
        ),
        (
            TWO_INIT_IMPLICIT,
            [GPU, INIT, IMPLICIT],
            [
                ("container-0-request-0", "init-con0", INIT),
                ("container-1-request-0", "init-con1", IMPLICIT),
                ("container-2-request-0", "con0", GPU),
            ],
        ),
        (
            SIDECAR,
            [GPU, INIT],
            [
                ("container-1-request-0", "init-con0", INIT),
                ("container-1-request-0", "sidecar-con1", INIT),
                ("container-2-request-0", "init-con2", INIT),
                ("container-3-request-0", "con0", GPU),
            ],
        ),
    ],
)
def test_mappings(pod: Pod, resources: list[str], wanted: list[tuple[str, str, str]]) -> None:
    _, mappings = extended.requests_and_mappings(pod, resources, CLASSES.get)
    found = [(one.request_name, one.container_name, one.resource_name) for one in mappings]
    assert sorted(found) == wanted


def test_an_amount_that_is_no_number_of_devices_asks_for_none() -> None:
    requests, mappings = extended.requests_and_mappings(_pod({GPU: 0}), [GPU], CLASSES.get)
    assert (requests, mappings) == ((), ())


def test_the_claim_names_its_pod_and_is_found_again() -> None:
    claim = extended.claim_in_memory(BOTH, "temporary")
    assert extended.is_in_memory(claim)
    assert claim.metadata.generate_name == "my-pod-extended-resources-"
    stored = ResourceClaim(
        metadata=ClaimMeta(
            name="my-pod-extended-resources-x7",
            namespace="default",
            annotations=claim.metadata.annotations,
            owner_references=claim.metadata.owner_references,
        )
    )
    assert extended.find_earlier(BOTH, [stored]) is stored
    recreated = Pod(metadata=ObjectMeta(name="my-pod", namespace="default", uid="other"))
    assert extended.find_earlier(recreated, [stored]) is None
    user_owner = OwnerReference("Pod", "my-pod", "1234", "v1", True)
    not_annotated = ResourceClaim(metadata=ClaimMeta(owner_references=(user_owner,)))
    assert extended.find_earlier(BOTH, [not_annotated]) is None
