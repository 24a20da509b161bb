"""In-tree volumes as CSI volumes: upstream's cases of handles and topology."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stowplan.api.objects import ObjectMeta, Volume
from stowplan.api.storage_objects import CSINode, PersistentVolume
from stowplan.cluster.csi_migration import (
    AWS_EBS,
    DRIVERS,
    GCE_PD,
    CannotTranslateError,
    inline_handle,
    is_migrated_on,
    plugin_of,
    translate,
)

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
GCE_KEY = "topology.gke.io/zone"


def volume(
    source: dict[str, Any], *, labels: dict[str, str] | None = None, **spec: Any
) -> PersistentVolume:
    wire = {"metadata": {"name": "pv", "labels": labels}, "spec": {**source, **spec}}
    return msgspec.convert(wire, PersistentVolume)


def term(**expressions: list[str]) -> dict[str, Any]:
    keys = {"zone": ZONE, "region": REGION, "beta_zone": BETA_ZONE, "beta_region": BETA_REGION}
    return {
        "matchExpressions": [
            {"key": keys.get(key, key), "operator": "In", "values": values}
            for key, values in expressions.items()
        ]
    }


def wanted(pv: PersistentVolume) -> list[dict[str, tuple[str, ...] | None]] | None:
    """Values by key, for each term of a volume's affinity."""
    affinity = pv.spec.node_affinity
    if affinity is None or affinity.required is None:
        return None
    return [
        {r.key: r.values for r in term.match_expressions or ()}
        for term in affinity.required.node_selector_terms or ()
    ]


GCE = {"gcePersistentDisk": {"pdName": "d"}}
AWS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
VSPHERE = {"vsphereVolume": {"volumePath": "x"}}
AZURE_FILE = {"azureFile": {"secretName": "azure-storage-account-x-secret", "shareName": "s"}}


@pytest.mark.parametrize(
    ("source", "driver", "handle"),
    [
        (AWS, "ebs.csi.aws.com", "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws:///vol-2"}}, "ebs.csi.aws.com", "vol-2"),
        ({"awsElasticBlockStore": {"volumeID": "aws://z1/vol-2"}}, "ebs.csi.aws.com", "vol-2"),
        (
            {"azureDisk": {"diskURI": "/d", "kind": "managed"}},
            "disk.csi.azure.com",
            "/d",
        ),
        (
            {"azureFile": {**AZURE_FILE["azureFile"], "secretNamespace": "ns"}},
            "file.csi.azure.com",
            "#x#s#pv#ns",
        ),
        ({"cinder": {"volumeID": "c"}}, "cinder.csi.openstack.org", "c"),
        (GCE, "pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        ({"portworxVolume": {"volumeID": "p"}}, "pxd.portworx.com", "p"),
        (VSPHERE, "csi.vsphere.vmware.com", "x"),
    ],
)
def test_drivers_and_handles(source: dict[str, Any], driver: str, handle: str) -> None:
    before = volume(source)
    after = translate(before)
    assert after.spec.csi is not None
    assert (after.spec.csi.driver, after.spec.csi.volume_handle) == (driver, handle)
    plugin = plugin_of(before.spec)
    assert plugin is not None
    assert DRIVERS[plugin] == driver
    assert plugin_of(after.spec) is None
    assert after.metadata == before.metadata


@pytest.mark.parametrize(
    ("zones", "handle"),
    [
        ({ZONE: "eu-west-b"}, "zones/eu-west-b/disks/d"),
        ({ZONE: "x", BETA_ZONE: "y"}, "zones/y/disks/d"),
        ({ZONE: "eu-west-b__eu-west-c"}, "regions/eu-west/disks/d"),
    ],
)
def test_handles_of_gce_tell_the_zone(zones: dict[str, str], handle: str) -> None:
    csi = translate(volume(GCE, labels=zones)).spec.csi
    assert csi is not None
    assert csi.volume_handle == f"projects/UNSPECIFIED/{handle}"


@pytest.mark.parametrize(
    ("pv", "why"),
    [
        (volume(GCE, labels={ZONE: "eu-west-b__us-east-c"}), "multiple or no regions"),
        (volume(GCE, labels={ZONE: "a__b"}), "zone in unexpected format"),
        (volume({"azureDisk": {"diskURI": "/d", "kind": "Shared"}}), r"kind\(Shared\)"),
        (volume(AZURE_FILE), "could not find a secret namespace"),
        (volume({"awsElasticBlockStore": {"volumeID": "aws://z/x"}}), "Invalid format"),
        (volume({"awsElasticBlockStore": {"volumeID": "aws://["}}), "Invalid disk name"),
    ],
)
def test_what_cannot_be_translated(pv: PersistentVolume, why: str) -> None:
    with pytest.raises(CannotTranslateError, match=why):
        translate(pv)


def test_azure_file_finds_its_namespace_in_the_claim() -> None:
    csi = translate(volume(AZURE_FILE, claimRef={"namespace": "ns", "name": "c"})).spec.csi
    assert csi is not None
    assert csi.volume_handle == "#x#s#pv#ns"


@pytest.mark.parametrize(
    ("source", "handle"),
    [
        (AWS, "vol-1"),
        (AZURE_FILE, "#x#s#v#ns"),
        ({"azureFile": {"secretName": "other", "shareName": "s"}}, "#other#s#v#ns"),
        ({"azureDisk": {"diskURI": "/d"}}, "/d"),
        (GCE, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        ({"cinder": {"volumeID": "c"}}, "c"),
        ({"portworxVolume": {"volumeID": "p"}}, "p"),
        (VSPHERE, "x"),
    ],
)
def test_disks_that_pods_name(source: dict[str, Any], handle: str) -> None:
    inline = msgspec.convert({"name": "v", **source}, Volume)
    assert plugin_of(inline) is not None
    assert inline_handle(inline, "ns") == handle


def test_volumes_of_no_in_tree_plugin() -> None:
    assert plugin_of(msgspec.convert({"name": "v", "iscsi": {"iqn": "a"}}, Volume)) is None
    assert plugin_of(volume({"csi": {"driver": "d"}}).spec) is None


# Topology


@pytest.mark.parametrize(
    ("terms", "labels", "expected"),
    [
        pytest.param(None, None, None, id="nothing-said"),
        pytest.param([term(zone=["a"])], None, [{GCE_KEY: ("a",)}], id="zone"),
        pytest.param(
            [term(beta_zone=["a"], beta_region=["r"])],
            {ZONE: "x"},
            [{GCE_KEY: ("a",), REGION: ("r",)}],
            id="beta-zone-and-region",
        ),
        pytest.param(
            [term(zone=["a"], region=["r"])], None, [{GCE_KEY: ("a",), REGION: ("r",)}], id="region"
        ),
        pytest.param(
            [term(zone=["a"]), term(disk=["ssd"], zone=["b"])],
            None,
            [{GCE_KEY: ("a",)}, {"disk": ("ssd",), GCE_KEY: ("b",)}],
            id="several-terms",
        ),
        pytest.param(None, {ZONE: "eu-a-1"}, [{GCE_KEY: ("eu-a-1",)}], id="from-the-label"),
        pytest.param(
            [],
            {BETA_ZONE: "eu-a-2__eu-a-1"},
            [{GCE_KEY: ("eu-a-1", "eu-a-2")}],
            id="several-zones-in-the-label",
        ),
        pytest.param(
            [term(disk=["ssd"]), term(disk=["hdd"])],
            {ZONE: "a"},
            [{"disk": ("ssd",), GCE_KEY: ("a",)}, {"disk": ("hdd",), GCE_KEY: ("a",)}],
            id="label-added-to-every-term",
        ),
        pytest.param(None, {ZONE: ""}, None, id="empty-label"),
    ],
)
def test_topology(
    terms: list[dict[str, Any]] | None,
    labels: dict[str, str] | None,
    expected: list[dict[str, Any]] | None,
) -> None:
    spec: dict[str, Any] = {}
    if terms is not None:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    before = volume(GCE, labels=labels, **spec)
    assert wanted(translate(before)) == expected


def test_vsphere_moves_the_region_too_and_does_not_split_labels() -> None:
    labels = {ZONE: "a__b", REGION: "r"}
    keys = {"topology.csi.vmware.com/zone": ("a__b",), "topology.csi.vmware.com/region": ("r",)}
    assert wanted(translate(volume(VSPHERE, labels=labels))) == [keys]
    affinity = {"required": {"nodeSelectorTerms": [term(zone=["a"], region=["r"])]}}
    moved = wanted(translate(volume(VSPHERE, nodeAffinity=affinity)))
    assert moved == [{**keys, "topology.csi.vmware.com/zone": ("a",)}]


def test_drivers_without_topology_leave_the_affinity_alone() -> None:
    affinity = {"required": {"nodeSelectorTerms": [term(zone=["a"])]}}
    source = {"azureDisk": {"diskURI": "/d"}}
    assert wanted(translate(volume(source, nodeAffinity=affinity))) == [{ZONE: ("a",)}]


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        (["ReadOnlyMany"], ["ReadOnlyMany"]),
        (["ReadOnlyMany", "ReadWriteOncePod"], ["ReadOnlyMany"]),
        (["ReadOnlyMany", "ReadWriteMany"], ["ReadWriteOnce"]),
        (["ReadWriteOncePod"], ["ReadWriteOnce"]),
        ([], ["ReadWriteOnce"]),
    ],
)
def test_access_modes_of_gce(modes: list[str], expected: list[str]) -> None:
    assert translate(volume(GCE, accessModes=modes)).spec.access_modes == tuple(expected)
    assert translate(volume(AWS, accessModes=modes)).spec.access_modes == tuple(modes)
    assert translate(volume(GCE)).spec.access_modes is None


def test_migration_is_what_a_kubelet_says() -> None:
    annotation = "storage.alpha.kubernetes.io/migrated-plugins"
    said = {annotation: f"{AWS_EBS},kubernetes.io/cinder"}
    csi_node = CSINode(metadata=ObjectMeta(name="n", annotations=said))
    assert is_migrated_on(csi_node, AWS_EBS)
    assert not is_migrated_on(csi_node, GCE_PD)
    assert not is_migrated_on(CSINode(), AWS_EBS)
    assert not is_migrated_on(None, AWS_EBS)
