"""Requests that cannot be satisfied are reported on the claim or the pod with a remedy, and other pods run."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from testclusters.commands import CommandFailed
from tests.e2e.client import Client, Object, eventually
from tests.e2e.pods import pod, request, template

UNKNOWN_PARAMETER = {
    "opaque": {
        "driver": "lode.dev",
        "parameters": {"apiVersion": "lode.dev/v1alpha1", "kind": "GpuConfig", "sharring": "none"},
    }
}
ATTRIBUTES = 'device.attributes["lode.dev"]'
CASES: dict[str, tuple[list[Object], dict[str, Any], tuple[str, ...]]] = {
    "unknown class": ([request("nosuch")], {}, ("nosuch.lode.dev",)),
    "more than exists": ([request(count=9)], {}, ("card",)),
    "more than a node has": ([request(count=5)], {"profile": "a100x4"}, ("card", "gpu")),
    "no such model": ([request(selector=f'{ATTRIBUTES}.model == "H9000"')], {}, ("selector",)),
    "attribute that no device has": ([request(selector=f'{ATTRIBUTES}.colour == "red"')], {}, ("colour",)),
    "unknown parameter field": ([request()], {"config": [UNKNOWN_PARAMETER]}, ("sharring",)),
    "node selector that matches nothing": ([request()], {"nodeSelector": {"shelf": "top"}}, ("nodeSelector",)),
    "more memory than a card has": ([request("gpu-share", memory="900Gi")], {}, ("memory",)),
}


def check_other_pods_run(client: Client, namespace: str) -> None:
    """A pod with a valid request runs."""
    client.create(namespace, template("valid", request()), pod("valid", "valid"))
    client.wait_until_ready(namespace, "valid")
    client.delete(namespace, "pod", "valid")


def check_message(client: Client, namespace: str, name: str, words: Sequence[str]) -> None:
    """The messages about the pod or its claims contain these words."""

    def reported() -> bool:
        messages = client.messages(namespace, name)
        for claim in client.claims(namespace)[name].values():
            messages += client.messages(namespace, claim["metadata"]["name"])
        assert all(word in messages for word in words), messages
        return True

    eventually(f"messages about {name} contain {', '.join(words)}", reported)


def test_each_error_is_reported_and_other_pods_run(client: Client, namespace: str) -> None:
    for number, (requests, options, _) in enumerate(CASES.values()):
        config = {"config": options["config"]} if "config" in options else {}
        rest = {key: value for key, value in options.items() if key != "config"}
        client.create(namespace, template(f"t{number}", *requests, **config), pod(f"p{number}", f"t{number}", **rest))
    check_other_pods_run(client, namespace)
    for number, (_, _, words) in enumerate(CASES.values()):
        check_message(client, namespace, f"p{number}", words)
        assert client.devices(namespace, f"p{number}") == set()


@pytest.mark.parametrize(
    "expression", ["device.attributes[", "1 + 1", 'device.nosuch == "x"'], ids=["syntax", "no bool", "unknown field"]
)
def test_malformed_cel_is_rejected_at_once(client: Client, namespace: str, expression: str) -> None:
    with pytest.raises(CommandFailed, match="expression"):
        client.create(namespace, template("bad", request(selector=expression)))


def test_both_claims_are_named_if_no_node_has_devices_for_both(client: Client, namespace: str) -> None:
    gpu, npu = template("gpu", request("gpu")), template("npu", request("npu"))
    client.create(namespace, gpu, npu, pod("torn", "gpu", "npu"))
    check_other_pods_run(client, namespace)
    check_message(client, namespace, "torn", ["gpu.lode.dev", "npu.lode.dev"])
    assert client.devices(namespace, "torn") == set()


def test_a_pod_runs_after_its_missing_template_is_created(client: Client, namespace: str) -> None:
    client.create(namespace, template("gone", request()))
    client.delete(namespace, "resourceclaimtemplate", "gone")
    client.create(namespace, pod("orphan", "gone"))
    check_other_pods_run(client, namespace)
    check_message(client, namespace, "orphan", ["gone", "not found"])
    client.create(namespace, template("gone", request()))
    client.wait_until_ready(namespace, "orphan")


def test_a_class_that_appears_later_is_used(client: Client, namespace: str) -> None:
    late = request()
    late["exactly"]["deviceClassName"] = "late.lode.dev"
    client.create(namespace, template("late", late), pod("early", "late"))
    check_message(client, namespace, "early", ["late.lode.dev"])
    selector = {"cel": {"expression": 'device.driver == "lode.dev" && device.attributes["lode.dev"].kind == "npu"'}}
    device_class = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "late.lode.dev"}}
    try:
        client.kubectl("create", "-f", "-", input=json.dumps({**device_class, "spec": {"selectors": [selector]}}))
        client.wait_until_ready(namespace, "early")
    finally:
        client.kubectl("delete", "deviceclass", "late.lode.dev", "--ignore-not-found")
