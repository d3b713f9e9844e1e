"""What cannot be granted is answered at the claim or the pod, in words that say what to change; others go on."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from testclusters import CommandFailed
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


def others_go_on(client: Client, space: str) -> None:
    """A pod that asks for something sensible runs."""
    client.create(space, template("sensible", request()), pod("sensible", "sensible"))
    client.wait_until_ready(space, "sensible")
    client.delete(space, "pod", "sensible")


def is_told(client: Client, space: str, name: str, words: Sequence[str]) -> None:
    """The pod or one of its claims says, in one of its messages, what is wrong."""

    def look() -> bool:
        said = client.complaints(space, name)
        for claim in client.claims(space)[name].values():
            said += client.complaints(space, claim["metadata"]["name"])
        assert all(word in said for word in words), said
        return True

    eventually(f"{name} is told of {', '.join(words)}", look)


def test_each_fault_is_named_and_others_go_on(client: Client, space: str) -> None:
    for number, (requests, options, _) in enumerate(CASES.values()):
        config = {"config": options["config"]} if "config" in options else {}
        rest = {key: value for key, value in options.items() if key != "config"}
        client.create(space, template(f"t{number}", *requests, **config), pod(f"p{number}", f"t{number}", **rest))
    others_go_on(client, space)
    for number, (_, _, words) in enumerate(CASES.values()):
        is_told(client, space, f"p{number}", words)
        assert client.devices(space, f"p{number}") == set()


@pytest.mark.parametrize(
    "expression", ["device.attributes[", "1 + 1", 'device.nosuch == "x"'], ids=["syntax", "no bool", "unknown field"]
)
def test_malformed_cel_is_refused_at_once(client: Client, space: str, expression: str) -> None:
    with pytest.raises(CommandFailed, match="expression"):
        client.create(space, template("bad", request(selector=expression)))


def test_two_claims_that_cannot_meet_on_one_node_are_named_both(client: Client, space: str) -> None:
    gpu, npu = template("gpu", request("gpu")), template("npu", request("npu"))
    client.create(space, gpu, npu, pod("torn", "gpu", "npu"))
    others_go_on(client, space)
    is_told(client, space, "torn", ["gpu.lode.dev", "npu.lode.dev"])
    assert client.devices(space, "torn") == set()


def test_a_pod_whose_template_is_missing_runs_when_it_comes(client: Client, space: str) -> None:
    client.create(space, template("gone", request()))
    client.delete(space, "resourceclaimtemplate", "gone")
    client.create(space, pod("orphan", "gone"))
    others_go_on(client, space)
    is_told(client, space, "orphan", ["gone", "not found"])
    client.create(space, template("gone", request()))
    client.wait_until_ready(space, "orphan")


def test_a_class_that_appears_later_is_used(client: Client, space: str) -> None:
    late = request()
    late["exactly"]["deviceClassName"] = "late.lode.dev"
    client.create(space, template("late", late), pod("early", "late"))
    is_told(client, space, "early", ["late.lode.dev"])
    selector = {"cel": {"expression": 'device.driver == "lode.dev" && device.attributes["lode.dev"].kind == "npu"'}}
    device_class = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "late.lode.dev"}}
    try:
        client.kubectl("create", "-f", "-", input=json.dumps({**device_class, "spec": {"selectors": [selector]}}))
        client.wait_until_ready(space, "early")
    finally:
        client.kubectl("delete", "deviceclass", "late.lode.dev", "--ignore-not-found")
