"""kube-scheduler's feature gates: which exist, what was set, and what that means here.

`feature_gates.txt` lists every gate of kube-scheduler 1.36.3; a test compares it with the binary.
Stowplan behaves as kube-scheduler does with its default gates, so only `SWITCHED` gates change
anything. Errors are upstream's. A gate set to a value without effect here is reported once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from stowplan.errors import ConfigError

#: Gates that are obeyed.
SWITCHED: Final = frozenset({"DRADeviceTaintRules", "LoggingAlphaOptions", "LoggingBetaOptions"})
#: Gates whose feature is here, always on.
ALWAYS_ON: Final = frozenset(
    {
        "ComponentFlagz",
        "ComponentStatusz",
        "DRAConsumableCapacity",
        "DRADeviceBindingConditions",
        "DRADeviceTaints",
        "DRAExtendedResource",
        "DRAPartitionableDevices",
        "DRAPrioritizedList",
        "DRAResourceClaimDeviceStatus",
        "DRASchedulerFilterTimeout",
        "InPlacePodVerticalScaling",
        "MatchLabelKeysInPodTopologySpread",
        "MatchLabelKeysInPodTopologySpreadSelectorMerge",
        "NodeDeclaredFeatures",
        "NodeInclusionPolicyInPodTopologySpread",
        "PodLevelResources",
        "RemoteRequestHeaderUID",
        "SchedulerAsyncPreemption",
        "SchedulerPopFromBackoffQ",
        "SchedulerQueueingHints",
        "SidecarContainers",
        "VolumeAttributesClass",
    }
)
#: Gates that kube-scheduler reads and whose feature is missing here.
MISSING: Final = frozenset(
    {
        "CoordinatedLeaderElection",
        "DRAListTypeAttributes",
        "DRANodeAllocatableResources",
        "DRAWorkloadResourceClaims",
        "GangScheduling",
        "GenericWorkload",
        "InPlacePodLevelResourcesVerticalScaling",
        "NativeHistograms",
        "NominatedNodeNameForExpectation",
        "StorageCapacityScoring",
        "TaintTolerationComparisonOperators",
        "TopologyAwareWorkloadScheduling",
        "VolumeLimitScaling",
        "WorkloadAwarePreemption",
    }
)
#: Gates about how kube-scheduler works inside, which have no counterpart here.
INTERNAL: Final = frozenset(
    {
        "AtomicFIFO",
        "ClientsAllowCARotation",
        "ClientsAllowCBOR",
        "ClientsAllowTLSCacheGC",
        "ClientsPreferCBOR",
        "ContextualLogging",
        "InformerResourceVersion",
        "OpportunisticBatching",
        "SchedulerAsyncAPICalls",
        "UnlockWhileProcessingFIFO",
        "WatchListClient",
    }
)
_ALL: Final = {"AllAlpha": "ALPHA", "AllBeta": "BETA"}
_COMPONENT: Final = "kube"
_FLAG: Final = "--feature-gates"


class Gate(NamedTuple):
    """A feature gate; `stage` is ALPHA, BETA, GA or DEPRECATED."""

    name: str
    stage: str
    default: bool
    is_locked: bool
    #: Gates that must be on if this one is.
    needs: tuple[str, ...] = ()


@cache
def known_gates() -> Mapping[str, Gate]:
    """All feature gates of kube-scheduler by name."""
    text = files("stowplan.config").joinpath("feature_gates.txt").read_text()
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {row[0]: _gate(*row) for row in rows}


def _gate(name: str, stage: str, default: str, *more: str) -> Gate:
    needs = next((word.removeprefix("needs=") for word in more if word.startswith("needs=")), "")
    needed = tuple(needs.split(",")) if needs else ()
    return Gate(name, stage, default == "true", "locked" in more, needed)


class FeatureGates:
    """The gates that the user has set; all others have their defaults."""

    def __init__(self, chosen: Mapping[str, bool] | None = None) -> None:
        self.chosen: Mapping[str, bool] = chosen or {}

    def is_enabled(self, name: str) -> bool:
        """The value of a gate. AllAlpha and AllBeta decide for gates that are not set."""
        gate = known_gates()[name]
        for every, stage in _ALL.items():
            if gate.stage == stage and name not in self.chosen and every in self.chosen:
                return self.chosen[every]
        return self.chosen.get(name, gate.default)

    def effective(self) -> dict[tuple[str, ...], float]:
        """Whether each feature is on here, by name and stage; upstream's stage of GA is empty."""
        return {
            (gate.name, "" if gate.stage == "GA" else gate.stage): self._has(gate.name)
            for gate in known_gates().values()
        }

    def _has(self, name: str) -> bool:
        return name not in MISSING and (name in ALWAYS_ON or self.is_enabled(name))

    def without_effect(self) -> Iterator[str]:
        """For each gate that was set to no effect, a sentence that says why."""
        for name, value in self.chosen.items():
            gate = known_gates()[name]
            if name in _ALL or (value != gate.default and name not in SWITCHED):
                yield f"{name}={str(value).lower()} has no effect: {_why(name)}"


def parse_gates(settings: Iterable[str]) -> FeatureGates:
    """Read `[kube:]Name=true` settings; ConfigError has kube-scheduler's text."""
    chosen: dict[str, bool] = {}
    prefixes: set[str] = set()
    for setting in settings:
        component, colon, rest = setting.partition(":")
        prefixes.add(colon)
        if len(prefixes) > 1:
            detail = "set kube feature gates with default empty prefix or kube: prefix consistently"
            raise ConfigError(f"{detail}, do not mix use", where=_FLAG)
        if colon and component.strip() != _COMPONENT:
            raise ConfigError(f"component not registered: {component.strip()}", where=_FLAG)
        name, equals, text = (part.strip() for part in (rest if colon else setting).partition("="))
        if not equals:
            raise ConfigError(f"missing bool value for {name}", where=_FLAG)
        try:
            value = parse_bool(text)
        except ValueError as problem:
            raise ConfigError(f"invalid value of {name}={text}: {problem}", where=_FLAG) from None
        gate = known_gates().get(name)
        if gate is None:
            raise ConfigError(f"unrecognized feature gate: {name}", where=_FLAG)
        if gate.is_locked and value != gate.default:
            raise ConfigError(
                f"cannot set feature gate {name} to {str(value).lower()}, feature is locked to "
                f"{str(gate.default).lower()}",
                where=_FLAG,
            )
        chosen[name] = value
    gates = FeatureGates(chosen)
    _check_needs(gates)
    return gates


def _check_needs(gates: FeatureGates) -> None:
    problems: list[str] = []
    for gate in known_gates().values() if gates.chosen else ():
        missing = [name for name in gate.needs if not gates.is_enabled(name)]
        if missing and gates.is_enabled(gate.name):
            detail = f"{gate.name} is enabled, but depends on features that are disabled: "
            problems.append(f"{detail}[{' '.join(missing)}]")
    if problems:
        raise ConfigError(", ".join(problems), where=_FLAG)


def parse_bool(text: str) -> bool:
    """A boolean as Go's strconv.ParseBool reads it."""
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise ValueError("it must be true or false")


def _why(name: str) -> str:
    if name in _ALL:
        return (
            "Stowplan's features do not depend on their stage, except for logging options and "
            "device taint rules"
        )
    if name in ALWAYS_ON:
        return "Stowplan always has this feature"
    if name in MISSING:
        return "Stowplan does not have this feature"
    if name in INTERNAL:
        return "it changes how kube-scheduler works inside"
    return "it is a feature of other components"
