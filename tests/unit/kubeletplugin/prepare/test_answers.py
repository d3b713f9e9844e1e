"""The answer to a prepare, and what a container is told of its devices."""

from collections.abc import Mapping
from typing import Any

import pytest

from driver.kube.api import NODES
from kubeletplugin.prepare import ClaimRef, PreparedDevice
from tests.unit.kubeletplugin.plugin_node import (
    SHARE_A,
    SHARE_B,
    PluginNode,
    prepare,
    refused,
    result,
    share,
)

POD_CLAIM = {"resource.kubernetes.io/pod-claim-name": "gpus"}


def env(rig: PluginNode, ref: ClaimRef) -> dict[str, str]:
    return dict(line.split("=", 1) for device in rig.spec(ref)["devices"] for line in device["containerEdits"]["env"])


def by_request(environment: Mapping[str, str]) -> dict[str, str]:
    prefix = "LODE_REQUEST_"
    return {name.removeprefix(prefix): value for name, value in environment.items() if name.startswith(prefix)}


def by_device(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith("LODE_REQUEST_")}


def test_the_answer_names_main_requests_and_one_cdi_device_per_result() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0", "main/first"), share("gpu-1-share", SHARE_A, request="part")])
    assert prepare(rig.plugin(), ref).devices == (
        PreparedDevice("main", "node-a/lode.dev", "gpu-0", (f"lode.dev/claim={ref.uid}_main_gpu-0",)),
        PreparedDevice(
            "part",
            "node-a/lode.dev",
            "gpu-1-share",
            (f"lode.dev/claim={ref.uid}_part_gpu-1-share_aaaaaaaa",),
            SHARE_A,
        ),
    )


def test_the_environment_tells_what_the_container_holds() -> None:
    rig = PluginNode()
    results = [
        result("gpu-0", "whole"),
        share("gpu-1-share", SHARE_A, memory="4Gi", cores="30", request="share"),
        result("gpu-2-mig-1g-5gb-0", "part"),
    ]
    ref = rig.claim("c", results)
    prepare(rig.plugin(), ref)
    uuid = {card.name: card.uuid for card in rig.hardware.cards()}
    assert by_device(env(rig, ref)) == {
        "LODE_DEVICE_GPU_0": uuid["gpu-0"],
        "LODE_MEMORY_MIB_GPU_0": "40960",
        "LODE_CORES_GPU_0": "100",
        "NVIDIA_VISIBLE_DEVICES": "void",
        "LODE_DEVICE_GPU_1_SHARE_aaaaaaaa": uuid["gpu-1"],
        "LODE_MEMORY_MIB_GPU_1_SHARE_aaaaaaaa": "4096",
        "LODE_CORES_GPU_1_SHARE_aaaaaaaa": "30",
        "LODE_DEVICE_GPU_2_MIG_1G_5GB_0": uuid["gpu-2"],
        "LODE_MEMORY_MIB_GPU_2_MIG_1G_5GB_0": "5120",
        "LODE_CORES_GPU_2_MIG_1G_5GB_0": "14",
    }


@pytest.mark.parametrize(("annotations", "claim"), [({}, "TRAIN_A"), (POD_CLAIM, "GPUS")])
def test_the_names_by_request_do_not_change_with_the_device(annotations: Mapping[str, str], claim: str) -> None:
    card = {card.name: card.uuid for card in PluginNode().hardware.cards()}
    for first, second, part in [("gpu-0", "gpu-1", SHARE_A), ("gpu-2", "gpu-0", SHARE_B)]:
        rig = PluginNode()
        results = [result(first, "two"), result(second, "two"), share("gpu-3-share", part, "4Gi", "30", "a-part/big")]
        ref = rig.claim("train.a", results, annotations=annotations)
        prepare(rig.plugin(), ref)
        assert by_request(env(rig, ref)) == {
            f"{claim}_TWO_0_UUID": card[first],
            f"{claim}_TWO_0_MEMORY_MIB": "40960",
            f"{claim}_TWO_0_CORES": "100",
            f"{claim}_TWO_1_UUID": card[second],
            f"{claim}_TWO_1_MEMORY_MIB": "40960",
            f"{claim}_TWO_1_CORES": "100",
            f"{claim}_A_PART_0_UUID": card["gpu-3"],
            f"{claim}_A_PART_0_MEMORY_MIB": "4096",
            f"{claim}_A_PART_0_CORES": "30",
        }


@pytest.mark.parametrize("name", ["../../etc", "a/b", "A", "a=b\nLD_PRELOAD", "-a", "a" * 64])
def test_a_name_that_would_be_part_of_a_path_in_the_container_is_a_label(name: str) -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")], annotations={"resource.kubernetes.io/pod-claim-name": name})
    error = refused(rig.plugin(), ref)
    assert error.reason == "invalid"
    assert "metadata.annotations[resource.kubernetes.io/pod-claim-name]" in error.message
    assert rig.claim_files() == set()


def test_a_container_sees_the_device_files_of_its_request_and_no_others() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0", "a"), share("gpu-1-share", SHARE_A, request="b")])
    prepare(rig.plugin(), ref)
    nodes = [[node["path"] for node in d["containerEdits"]["deviceNodes"]] for d in rig.spec(ref)["devices"]]
    assert nodes == [["/dev/lode/gpu-0"], ["/dev/lode/gpu-1"]]


def test_the_same_claim_gets_the_same_answer_again_and_nothing_is_written() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    first = prepare(rig.plugin(), ref)
    rig.files.disk.before = no_writes
    assert prepare(rig.plugin(), ref) == first


def no_writes(operation: str, path: str) -> None:
    assert operation not in ("create", "rename", "unlink"), f"{operation} {path}"


def test_a_later_answer_repeats_the_facts_of_the_first_even_if_the_nodes_labels_changed() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    prepare(rig.plugin(), ref)
    rig.api.patch(NODES, "node-a", {"metadata": {"labels": {"lode.dev/ib-cluster": "fabric-2"}}})
    rig.files.disk.before = no_writes
    prepare(rig.plugin(), ref)


def test_a_claim_with_nothing_of_ours_has_an_empty_answer() -> None:
    rig = PluginNode()
    other = result("nic-0", driver="net.example.com", pool="elsewhere")
    assert prepare(rig.plugin(), rig.claim("c", [other])).devices == ()
    assert rig.claim_files() == set()


def test_devices_of_other_drivers_in_the_same_allocation_are_ignored() -> None:
    rig = PluginNode()
    other = result("gpu-0", "net", driver="net.example.com", pool="node-a/lode.dev")
    alien: dict[str, Any] = {
        "source": "FromClaim",
        "requests": ["net"],
        "opaque": {"driver": "net.example.com", "parameters": {"kind": "Whatever"}},
    }
    answer = prepare(rig.plugin(), rig.claim("c", [other, result("gpu-0")], [alien]))
    assert [(device.request, device.device) for device in answer.devices] == [("gpu", "gpu-0")]


def test_the_metadata_mount_is_where_pod_authors_expect_it() -> None:
    rig = PluginNode()
    named, generated = rig.claim("named", [result("gpu-0", "a/x")]), rig.claim("gen", [result("gpu-1")], (), POD_CLAIM)
    plugin = rig.plugin()
    mounts = []
    for ref in (named, generated):
        prepare(plugin, ref)
        mounts += [mount for d in rig.spec(ref)["devices"] for mount in d["containerEdits"].get("mounts", [])]
    root = "/var/run/kubernetes.io/dra-device-attributes"
    assert [mount["containerPath"] for mount in mounts] == [
        f"{root}/resourceclaims/named/a/lode.dev-metadata.json",
        f"{root}/resourceclaimtemplates/gpus/gpu/lode.dev-metadata.json",
    ]
    for mount in mounts:
        assert "ro" in mount["options"]
        assert rig.files.read(mount["hostPath"]) is not None
