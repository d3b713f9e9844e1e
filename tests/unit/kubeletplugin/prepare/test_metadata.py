"""Device metadata as k8s.io/dynamic-resource-allocation/api/metadata defines it."""

import json
from typing import Any

import pytest

from kubeletplugin.prepare.metadata import plan_in
from kubeletplugin.prepare.plan import ClaimPlan
from tests.unit.kubeletplugin.plugin_node import PLUGIN, PluginNode, prepare, result

ROOT = f"{PLUGIN}/dra-device-metadata"


def stream(content: bytes) -> list[dict[str, Any]]:
    """The JSON objects of a file, one after the other, as a consumer's decoder reads them."""
    text, found, decoder = content.decode(), [], json.JSONDecoder()
    while text.strip():
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:].lstrip()
    return found


def test_each_request_has_a_file_that_names_its_devices_once_per_version_newest_first() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0", "a/x"), result("gpu-1", "a/x"), result("gpu-2", "b")])
    prepare(rig.plugin(), ref)
    content = rig.files.read(f"{ROOT}/{ref.uid}_a.json")
    assert content
    beta, alpha = stream(content)
    assert beta == {
        "kind": "DeviceMetadata",
        "apiVersion": "metadata.resource.k8s.io/v1beta1",
        "metadata": {"name": "c", "namespace": "team", "uid": ref.uid, "generation": 1},
        "requests": [{"name": "a/x", "devices": beta["requests"][0]["devices"]}],
    }
    assert alpha == {**beta, "apiVersion": "metadata.resource.k8s.io/v1alpha1"}
    first, second = beta["requests"][0]["devices"]
    assert [first["name"], second["name"]] == ["gpu-0", "gpu-1"]
    assert (first["driver"], first["pool"]) == ("lode.dev", "node-a/lode.dev")
    assert first["attributes"]["type"] == {"string": "A100"}
    assert first["attributes"]["ibCluster"] == {"string": "fabric-1"}
    assert first["attributes"]["resource.kubernetes.io/pciBusID"] == {"string": "0000:07:00.0"}
    assert len(first["attributes"]) <= 32
    assert rig.files.names(ROOT) == [f"{ref.uid}_a.json", f"{ref.uid}_b.json"]


def test_a_generated_claim_says_which_entry_of_the_pod_it_is_for() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")], (), {"resource.kubernetes.io/pod-claim-name": "gpus"})
    prepare(rig.plugin(), ref)
    content = rig.files.read(f"{ROOT}/{ref.uid}_gpu.json")
    assert content
    assert stream(content)[0]["podClaimName"] == "gpus"
    plan = plan_in(content)
    assert plan is not None
    assert (plan.ref, plan.pod_claim_name, [it.device.device for it in plan.results]) == (ref, "gpus", ["gpu-0"])


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"metadata": {"name": "c"}}', b"[" * 100_000])
def test_a_file_of_another_kind_says_nothing_of_a_claim(content: bytes) -> None:
    found: ClaimPlan | None = plan_in(content)
    assert found is None
