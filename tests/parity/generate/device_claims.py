"""Random DeviceClasses and ResourceClaims: requests, alternatives, constraints, allocations."""

from __future__ import annotations

from tests.parity.generate.device_slices import (
    GPU,
    NIC,
    PCIE,
    TAINTS,
    node_selector,
)
from tests.parity.generate.dice import Dice, Json

CLASSES = ["gpu", "gpu", "gpu", "gpu", "any", "any", "any", "nic", "model-a", "strict"]
#: A resource of pods that devices of class "gpu" may stand for, and one that they always do.
EXTENDED = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
_SELECTORS = [
    f'device.driver == "{GPU}"',
    f'device.attributes["{GPU}"].?model.orValue("") == "A"',
    f'device.attributes["{GPU}"].?model.orValue("") == "B"',
    f'has(device.attributes["{GPU}"].numa)',
    f'device.attributes["{GPU}"].?numa.orValue(0) == 0',
    f'device.capacity["{GPU}"].?memory.orValue(quantity("0")).compareTo(quantity("40Gi")) > 0',
    "device.allowMultipleAllocations",
    "true",
    "!device.allowMultipleAllocations",
]
#: They end with an error, of the compiler or on some device.
_BROKEN = [
    "device.driver ==",
    "device.attributes",
    'device.attributes["x"].y',
    "unknown > 1",
    f'device.attributes["{GPU}"].model == "A"',
    f'device.attributes["{GPU}"].version.isGreaterThan(semver("1.9.0"))',
]


def classes(dice: Dice) -> list[Json]:
    """Those of CLASSES; now and then one is missing."""
    selectors: dict[str, list[str]] = {
        "gpu": [_SELECTORS[0]],
        "any": [],
        "nic": [f'device.driver == "{NIC}"'],
        "model-a": [_SELECTORS[0], f'device.attributes["{GPU}"].?model.orValue("A") == "A"'],
        "strict": [dice.choice(_BROKEN if dice.often(0.1) else _SELECTORS)],
    }
    made = []
    for name, expressions in selectors.items():
        spec: Json = {"selectors": [_selector(one) for one in expressions]}
        if dice.often(0.3):
            spec["config"] = [_config(dice) for _ in range(dice.randint(1, 2))]
        if name == "gpu" and dice.often(0.3):
            spec["extendedResourceName"] = EXTENDED
        if dice.often(0.97):
            made.append(
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "DeviceClass",
                    "metadata": {"name": name},
                    "spec": spec,
                }
            )
    return made


def _selector(expression: str) -> Json:
    return {"cel": {"expression": expression}}


def _config(dice: Dice) -> Json:
    parameters = {"kind": "Config", "level": dice.randint(1, 3)}
    return {"opaque": {"driver": dice.choice([GPU, NIC]), "parameters": parameters}}


def claim(dice: Dice, name: str, namespace: str) -> Json:
    """A claim that nothing was allocated for."""
    requests = [_request(dice, f"r{number}") for number in range(dice.choice([1, 1, 1, 1, 2, 3]))]
    devices: Json = {"requests": requests}
    if dice.often(0.35):
        devices["constraints"] = [
            _constraint(dice, requests) for _ in range(dice.choice([1, 1, 2]))
        ]
    if dice.often(0.25):
        devices["config"] = [
            {**_config(dice), **_some_requests(dice, requests)} for _ in range(dice.randint(1, 2))
        ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"},
        "spec": {"devices": devices},
        "status": {},
    }


def _request(dice: Dice, name: str) -> Json:
    if dice.often(0.25):
        subs = [f"s{number}" for number in range(dice.choice([1, 2, 2, 3, 3, 8]))]
        return {"name": name, "firstAvailable": [{"name": sub, **_wish(dice)} for sub in subs]}
    wish = _wish(dice)
    if dice.often(0.07):
        wish["adminAccess"] = True
    if dice.often(0.002):
        return {"name": name}
    return {"name": name, "exactly": wish}


def _wish(dice: Dice) -> Json:
    wish: Json = {"deviceClassName": dice.choice(CLASSES), "allocationMode": "ExactCount"}
    if dice.often(0.05):
        wish["allocationMode"] = "All"
    else:
        wish["count"] = dice.choice([1, 1, 1, 1, 1, 1, 2, 2, 3])
        if dice.often(0.02):
            wish["count"] = dice.choice([16, 31, 32, 33])
    if dice.often(0.35):
        expressions = _BROKEN if dice.often(0.03) else _SELECTORS
        wish["selectors"] = [_selector(dice.choice(expressions))]
        if dice.often(0.3):
            wish["selectors"].append(_selector(dice.choice(_SELECTORS)))
    if dice.often(0.3):
        wish["tolerations"] = [_toleration(dice) for _ in range(dice.choice([1, 1, 2]))]
    if dice.often(0.18):
        amounts = {
            "memory": dice.choice(["1Gi", "3Gi", "8Gi", "10Gi", "1Gi", "41Gi", "1500m", "0"])
        }
        if dice.often(0.3):
            amounts["cores"] = dice.choice(["1", "3", "5"])
        if dice.often(0.03):
            amounts["unheard-of"] = "1"
        wish["capacity"] = {"requests": amounts}
    if dice.often(0.003):
        wish["deviceClassName"] = dice.choice(["", "unheard-of"])
    if dice.often(0.003):
        wish["allocationMode"] = "Some"
    return wish


def _toleration(dice: Dice) -> Json:
    made: Json = {"operator": dice.choice(["Exists", "Exists", "Equal"])}
    if made["operator"] == "Equal":
        made |= {"key": dice.choice(TAINTS), "value": dice.choice(["very", "a-bit"])}
    elif dice.often(0.7):
        made["key"] = dice.choice(TAINTS)
    if dice.often(0.4):
        made["effect"] = dice.choice(["NoSchedule", "NoExecute"])
    return made


def _constraint(dice: Dice, requests: list[Json]) -> Json:
    attribute = dice.choice([f"{GPU}/numa", f"{GPU}/numa", f"{GPU}/model", PCIE, f"{NIC}/numa"])
    kind = dice.choice(["matchAttribute", "matchAttribute", "distinctAttribute"])
    if dice.often(0.002):
        return {}
    return {kind: attribute, **_some_requests(dice, requests)}


def _some_requests(dice: Dice, requests: list[Json]) -> Json:
    """A field `requests` that names some of them, or alternatives; none for all."""
    if dice.often(0.5):
        return {}
    names = [request["name"] for request in requests]
    names += [
        f"{request['name']}/{sub['name']}"
        for request in requests
        for sub in request.get("firstAvailable", ())
    ]
    return {"requests": dice.sample(names, dice.randint(1, min(3, len(names))))}


def hold(dice: Dice, made: Json, slices: list[Json], taken: set[tuple[str, str, str]]) -> Json:
    """Allocate some free devices to the claim, as a scheduler did before."""
    devices = [
        (one["spec"]["driver"], one["spec"]["pool"]["name"], device)
        for one in slices
        for device in one["spec"].get("devices", ())
    ]
    request = made["spec"]["devices"]["requests"][0]
    name = request["name"]
    if "firstAvailable" in request:
        name += "/" + dice.choice(request["firstAvailable"])["name"]
    results = []
    for driver, pool, device in dice.sample(devices, min(len(devices), dice.choice([1, 1, 2]))):
        key = (driver, pool, device["name"])
        result: Json = {"request": name, "driver": driver, "pool": pool, "device": device["name"]}
        if device.get("allowMultipleAllocations"):
            result["shareID"] = f"00000000-0000-0000-0000-{dice.randrange(10**12):012}"
            result["consumedCapacity"] = {
                capacity: "4Gi" if capacity == "memory" else "2" for capacity in device["capacity"]
            }
        elif key in taken:
            if not dice.often(0.2):
                continue
            result["adminAccess"] = True
        taken.add(key)
        for field in ("bindingConditions", "bindingFailureConditions"):
            if field in device:
                result[field] = device[field]
        results.append(result)
    allocation: Json = {"devices": {"results": results}}
    if dice.often(0.6):
        allocation["nodeSelector"] = node_selector(dice)
    if dice.often(0.5):
        # Long ago, or not before these tests are forgotten.
        allocation["allocationTimestamp"] = dice.choice(
            ["2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"]
        )
    made["status"]["allocation"] = allocation
    made["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    with_conditions = [one for one in results if "bindingConditions" in one]
    if with_conditions and dice.often(0.6):
        made["status"]["devices"] = [_device_status(dice, one) for one in with_conditions]
    return made


def _device_status(dice: Dice, result: Json) -> Json:
    names = [*result["bindingConditions"], *result["bindingFailureConditions"]]
    conditions = [
        {
            "type": name,
            "status": dice.choice(["True", "True", "False"]),
            "reason": "Tested",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for name in names
        if dice.often(0.6)
    ]
    return {
        **{name: result[name] for name in ("driver", "pool", "device")},
        "conditions": conditions,
    }


def reserve(made: Json, pods: list[tuple[str, str]]) -> None:
    """Record that these pods, by name and UID, use the claim."""
    made["status"]["reservedFor"] = [
        {"resource": "pods", "name": name, "uid": uid} for name, uid in pods
    ]
