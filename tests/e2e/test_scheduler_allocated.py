"""The flavor scheduler-allocated: kube-scheduler allocates the examples from the same slices, and they run."""

from collections.abc import Iterator

import pytest

from tests.e2e import flavors, nodes
from tests.e2e.client import Client, Object, names, results
from tests.e2e.container import container_view
from tests.e2e.pods import pod
from tests.e2e.test_examples import (
    check_each_claim_says_which_cards_it_has,
    check_each_example_has_the_requested_devices,
    check_views,
    run_all_examples,
)


@pytest.fixture(scope="module", autouse=True)
def allocated_by_kube_scheduler(client: Client) -> Iterator[None]:
    """Install the flavor, and the default flavor again afterwards."""
    before = nodes.published_slices(client)
    flavors.install(client, flavors.SCHEDULER_ALLOCATED)
    assert nodes.published_slices(client) == before
    yield
    flavors.install(client, flavors.CONTROLLER_ALLOCATED)


def test_no_controller_gate_or_allocation_policy_is_installed(client: Client) -> None:
    assert client.list("deployments", "lode-system") == []
    assert [it for it in names(client.list("mutatingadmissionpolicies")) if it.endswith("lode.dev")] == []
    rules = [it for it in names(client.list("validatingadmissionpolicies")) if it.endswith("lode.dev")]
    assert rules == ["claim-in-use.lode.dev", "own-slices.lode.dev"]


def test_all_examples_run_unchanged(client: Client, namespace: str) -> None:
    pods = run_all_examples(client, namespace)
    assert not any(it["spec"].get("schedulingGates") for it in pods)
    check_each_example_has_the_requested_devices(client, namespace, pods)
    check_each_claim_says_which_cards_it_has(client, namespace)
    check_views(client, namespace, pods)


def test_pods_that_ask_by_the_names_of_device_plugins_see_their_devices(client: Client, namespace: str) -> None:
    asked: Object = {"cards": {"nvidia.com/gpu": "2"}, "part": {"nvidia.com/mig-1g.5gb": "1"}}
    wanted = pod("old")
    (container,) = wanted["spec"]["containers"]
    wanted["spec"]["containers"] = [
        {**container, "name": name, "resources": {"limits": limits}} for name, limits in asked.items()
    ]
    client.create(namespace, wanted)
    client.wait_until_ready(namespace, "old")
    said = client.get("pods", "old", namespace)["status"]["extendedResourceClaimStatus"]
    held = results(client.get("resourceclaims", said["resourceClaimName"], namespace))
    requests = {mapping["containerName"]: mapping["requestName"] for mapping in said["requestMappings"]}
    of_container = {
        name: {it["device"] for it in held if it["request"] == request} for name, request in requests.items()
    }
    assert {name: len(devices) for name, devices in of_container.items()} == {"cards": 2, "part": 1}
    assert {name: container_view(client, namespace, "old", name).devices for name in asked} == of_container
