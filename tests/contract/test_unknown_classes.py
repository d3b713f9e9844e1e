"""A pod of another driver whose class does not exist yet: seen beside a real kube-scheduler, with the controller."""

from collections.abc import Iterator
from functools import partial

import pytest

from controller.state.pods import pod_from
from driver.kube.api import DEVICE_CLASSES, EVENTS, PODS, RESOURCE_CLAIM_TEMPLATES, Api, Object
from tests.contract.conftest import eventually
from tests.contract.objects import pod, resource_slice
from tests.contract.running import installed, nodes_of, running_controller, state_if_it_fails, waits_because

DRIVER = "nic.example.com"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Api]:
    """Two nodes, each with a device of another driver."""
    nodes: dict[str, dict[str, str]] = {"n1": {}, "n2": {}}
    slices = [resource_slice(f"{node}-nic", {"name": "nic-0"}, driver=DRIVER, nodeName=node) for node in nodes]
    with installed(nodes, {}, slices=slices) as (plane, api), running_controller(plane), state_if_it_fails(plane):
        yield api


def template(api: Api, name: str, device_class: str) -> None:
    requests = [{"name": "port", "exactly": {"deviceClassName": device_class}}]
    spec = {"spec": {"devices": {"requests": requests}}}
    api.create(RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


def create(api: Api, name: str, of: str) -> None:
    entries = [{"name": "nic", "resourceClaimTemplateName": of}]
    api.create(PODS, pod(name, "default", gates=(), resourceClaims=entries))


def conditions(api: Api, name: str) -> dict[str, Object]:
    return {one["type"]: one for one in api.get(PODS, name, "default")["status"].get("conditions") or ()}


def said(api: Api, name: str) -> tuple[str, str, str]:
    one = conditions(api, name).get("PodScheduled", {})
    return one.get("status", ""), one.get("reason", ""), one.get("message", "")


def has_no_condition_of_ours(api: Api, name: str) -> bool:
    return "lode.dev/Allocated" not in conditions(api, name)


def failed(api: Api, name: str) -> list[str]:
    """What Events say to those that watch for pods which are not scheduled."""
    found = api.list(EVENTS, namespace="default", field_selector=f"involvedObject.name={name}").items
    return [event["message"] for event in found if event["reason"] == "FailedScheduling"]


def test_it_is_told_in_kube_schedulers_words_and_runs_once_the_class_is_there(cluster: Api) -> None:
    api = cluster
    template(api, "late", "late.example.com")
    create(api, "p", "late")
    eventually(lambda: said(api, "p")[1] == "Unschedulable")
    assert eventually(lambda: failed(api, "p")) == [said(api, "p")[2]]
    assert api.get(PODS, "p", "default")["spec"]["schedulingGates"]
    # kube-scheduler's own words about a pod like it.
    create(api, "q", "late")
    api.patch(PODS, "q", {"spec": {"schedulingGates": None}}, namespace="default")
    own = eventually(lambda: said(api, "q") if pod_from(api.get(PODS, "q", "default"), "").unschedulable else None)
    assert said(api, "p") == own
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    api.create(DEVICE_CLASSES, {"metadata": {"name": "late.example.com"}, "spec": {"selectors": selectors}})
    assert eventually(lambda: nodes_of(api, "p", "q"))
    for name in "pq":
        eventually(partial(has_no_condition_of_ours, api, name))
        assert said(api, name)[0] == "True"


def test_of_a_claim_that_is_missing_kube_scheduler_says_nothing_and_ours_ends_with_it(cluster: Api) -> None:
    api = cluster
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    api.create(DEVICE_CLASSES, {"metadata": {"name": "nic"}, "spec": {"selectors": selectors}})
    create(api, "r", "gone")
    eventually(lambda: waits_because(api, "r", "ClaimMissing"))
    assert said(api, "r")[1] == "SchedulingGated"
    assert failed(api, "r") == []
    template(api, "gone", "nic")
    eventually(lambda: not api.get(PODS, "r", "default")["spec"].get("schedulingGates"))
    eventually(lambda: has_no_condition_of_ours(api, "r"))
