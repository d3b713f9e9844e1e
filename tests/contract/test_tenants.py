"""What a tenant cannot take from others, with the rights of a tenant."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

import pytest

from driver.kube.access import from_environment
from driver.kube.api import EVENTS, NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, Api, Object
from driver.kube.client import KubeClient
from driver.kube.codec import encode_object
from driver.kube.connections import Connections, HttpRequest
from driver.limits import MAX_EVENT_MESSAGE
from testclusters.controlplane import ControlPlane
from tests.contract.conftest import SERVICE_ACCOUNTS, eventually
from tests.contract.running import running, waits, waits_because

TENANT, NEIGHBOUR = "tenant", "neighbour"
OURS, NEXT_DOOR = "default", "next-door"
"""The namespaces of the tenant and of the neighbour."""
QUEUE = "queue.example/admission"
"""A scheduling gate of others."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[ControlPlane, Api]]:
    with running({"n1": {}, "n2": {}}, {}) as (plane, api):
        api.create(NAMESPACES, {"metadata": {"name": NEXT_DOOR}})
        for who, where in ((TENANT, OURS), (NEIGHBOUR, NEXT_DOOR)):
            plane.kubectl("create", "rolebinding", who, "--clusterrole=edit", f"--user={who}", f"--namespace={where}")
        eventually(lambda: api.get(SERVICE_ACCOUNTS, "default", NEXT_DOOR))
        yield plane, api


@contextmanager
def user(plane: ControlPlane, name: str) -> Iterator[Api]:
    """Somebody with the role ``edit`` in one namespace."""
    with closing(KubeClient.from_environment(str(plane.kubeconfig(name, ())))) as client:
        yield client


@pytest.fixture
def tenant(cluster: tuple[ControlPlane, Api]) -> Iterator[Api]:
    with user(cluster[0], TENANT) as client:
        yield client


@pytest.fixture
def neighbour(cluster: tuple[ControlPlane, Api]) -> Iterator[Api]:
    with user(cluster[0], NEIGHBOUR) as client:
        yield client


def card(name: str, namespace: str = OURS, count: int = 1) -> Object:
    request = {"name": "card", "exactly": {"deviceClassName": "gpu.lode.dev", "count": count}}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"devices": {"requests": [request]}}}


def pod(name: str, namespace: str = OURS, *gates: str) -> Object:
    """A pod with the claim of its name."""
    spec = {
        "schedulingGates": [{"name": gate} for gate in gates],
        "containers": [{"name": "main", "image": "none"}],
        "resourceClaims": [{"name": "card", "resourceClaimName": name}],
    }
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def pod_on(node: str, name: str) -> Object:
    spec = {
        "nodeName": node,
        "containers": [{"name": "main", "image": "none"}],
        "resourceClaims": [{"name": "card", "resourceClaimName": name}],
    }
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def devices(api: Api, claim: str, namespace: str = OURS) -> object:
    return (api.get(RESOURCE_CLAIMS, claim, namespace).get("status") or {}).get("allocation")


def remove(api: Api, name: str, namespace: str = OURS) -> None:
    """Delete pod and claim, and wait until the devices are free."""
    api.delete(PODS, name, namespace, grace_period_seconds=0)
    api.delete(RESOURCE_CLAIMS, name, namespace)
    eventually(
        lambda: name not in [one["metadata"]["name"] for one in api.list(RESOURCE_CLAIMS, namespace=namespace).items]
    )


def selecting(expressions: list[str]) -> list[Object]:
    selectors = [{"cel": {"expression": text}} for text in expressions]
    return [{"name": "card", "exactly": {"deviceClassName": "gpu.lode.dev", "selectors": selectors}}]


def looping(number: int) -> str:
    numbers = list(range(18))
    inner = f'device.attributes["lode.dev"].kind != "{number}"'
    for variable in "abc":
        inner = f"{numbers}.all({variable}, {inner})"
    return inner


def configured(parameters: bytes, count: int = 1) -> bytes:
    """The spec of a claim for a card, with opaque parameters of our driver as they are written."""
    config = b'{"opaque":{"driver":"lode.dev","parameters":%s}}' % parameters
    requests = encode_object(card("any")["spec"]["devices"]["requests"])
    return b'{"devices":{"requests":%s,"config":[%s]}}' % (requests, b",".join([config] * count))


LONG = encode_object({"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", "policy": "y" * 9_900})
HOSTILE = {
    "nested deeply": configured(b'{"a":' + b"[" * 4900 + b"]" * 4900 + b"}"),
    "half of a surrogate pair": configured(rb'{"a":"\ud800"}'),
    "no UTF-8": configured(b'{"a":"\xff"}'),
    "300 kB of faults": configured(LONG, 30),
    "selectors that loop": encode_object({"devices": {"requests": selecting([looping(i) for i in range(32)])}}),
}


@pytest.mark.parametrize("spec", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_claim_keeps_no_neighbour_waiting_and_its_author_is_told_shortly(
    cluster: tuple[ControlPlane, Api], tenant: Api, neighbour: Api, unique: str, spec: bytes
) -> None:
    plane, _ = cluster
    body = b'{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"%s"},"spec":%s}'
    with closing(Connections(from_environment(str(plane.kubeconfig(TENANT, ()))), 1)) as connections:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        path, raw = RESOURCE_CLAIMS.path(OURS), body % (unique.encode(), spec)
        answer = connections.send(HttpRequest("POST", path, headers, raw), 30)
        said = answer.read()
        assert answer.status == 201, said
    for number in range(3):
        shared = pod(unique)
        shared["metadata"]["name"] = f"{unique}-{number}"
        tenant.create(PODS, shared)
    neighbour.create(RESOURCE_CLAIMS, card(unique, NEXT_DOOR))
    neighbour.create(PODS, pod(unique, NEXT_DOOR))
    eventually(lambda: devices(neighbour, unique, NEXT_DOOR))
    remove(neighbour, unique, NEXT_DOOR)
    reasons = ("InvalidClaim", "InvalidParameters", "Unreadable")
    for number in range(3):
        condition = eventually(partial(waits_because, tenant, f"{unique}-{number}", *reasons))
        assert len(condition["message"]) <= MAX_EVENT_MESSAGE
        tenant.delete(PODS, f"{unique}-{number}", OURS, grace_period_seconds=0)
    events = eventually(partial(events_about, tenant, unique))
    assert all(len(event["message"]) <= MAX_EVENT_MESSAGE for event in events)


def events_about(api: Api, unique: str) -> list[Object]:
    return [event for event in api.list(EVENTS, namespace=OURS).items if unique in event["involvedObject"]["name"]]


@pytest.mark.parametrize("how", ["its claim comes later", "a gate of its own"])
def test_nobody_saves_up_age_with_a_pod_that_cannot_be_served(
    tenant: Api, neighbour: Api, unique: str, how: str
) -> None:
    """Eight cards, all in use; who could be served first gets the next ones."""
    early = f"{unique}-early"
    if how == "a gate of its own":
        tenant.create(RESOURCE_CLAIMS, card(early, count=4))
        tenant.create(PODS, pod(early, OURS, QUEUE))
    else:
        tenant.create(PODS, pod(early))
    for name in ("one", "two"):
        neighbour.create(RESOURCE_CLAIMS, card(f"{unique}-{name}", NEXT_DOOR, count=4))
        neighbour.create(PODS, pod(f"{unique}-{name}", NEXT_DOOR))
        eventually(partial(devices, neighbour, f"{unique}-{name}", NEXT_DOOR))
    neighbour.create(RESOURCE_CLAIMS, card(f"{unique}-waits", NEXT_DOOR, count=4))
    neighbour.create(PODS, pod(f"{unique}-waits", NEXT_DOOR))
    eventually(lambda: condition_of(neighbour, f"{unique}-waits", NEXT_DOOR) == "False")
    # Time stamps of objects have whole seconds.
    time.sleep(1.1)
    if how == "a gate of its own":
        gates = tenant.get(PODS, early, OURS)["spec"]["schedulingGates"]
        at = [gate["name"] for gate in gates].index(QUEUE)
        remove_gate = [{"op": "remove", "path": f"/spec/schedulingGates/{at}"}]
        tenant.patch(PODS, early, remove_gate, namespace=OURS, patch_type="json")
    else:
        tenant.create(RESOURCE_CLAIMS, card(early, count=4))
    eventually(lambda: waits_because(tenant, early, "Unallocatable"))
    remove(neighbour, f"{unique}-one", NEXT_DOOR)
    eventually(lambda: devices(neighbour, f"{unique}-waits", NEXT_DOOR))
    assert not devices(tenant, early)
    remove(neighbour, f"{unique}-two", NEXT_DOOR)
    eventually(lambda: devices(tenant, early))
    remove(neighbour, f"{unique}-waits", NEXT_DOOR)
    remove(tenant, early)


def condition_of(api: Api, name: str, namespace: str) -> str:
    """The status of our condition on the pod."""
    conditions = api.get(PODS, name, namespace)["status"].get("conditions") or ()
    return next((one["status"] for one in conditions if one["type"] == "lode.dev/Allocated"), "")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"unschedulable": True}, "the node is unschedulable"),
        ({"taints": [{"key": "team", "value": "b", "effect": "NoSchedule"}]}, "taint team=b:NoSchedule"),
    ],
)
def test_a_pod_that_names_a_closed_node_gets_no_devices_there(
    cluster: tuple[ControlPlane, Api], tenant: Api, unique: str, spec: Object, why: str
) -> None:
    _, admin = cluster
    tenant.create(RESOURCE_CLAIMS, card(f"{unique}-before"))
    tenant.create(PODS, pod_on("n2", f"{unique}-before"))
    eventually(lambda: devices(admin, f"{unique}-before"))
    admin.patch(NODES, "n2", {"spec": spec})
    try:
        # The controller may hear of a pod before it hears of the node: then the pod has devices, and the next one asks.
        name = next(name for name in (f"{unique}-{number}" for number in range(5)) if closed_to(tenant, admin, name))
        condition = eventually(lambda: waits_because(admin, name, "BoundWithoutDevices"))
        assert why in condition["message"]
        assert not devices(admin, name)
        assert devices(admin, f"{unique}-before"), "who has devices keeps them"
    finally:
        admin.patch(NODES, "n2", {"spec": {"unschedulable": None, "taints": None}})
    eventually(lambda: devices(admin, name))


def closed_to(tenant: Api, admin: Api, name: str) -> bool:
    """Whether a new pod that names the node waits; one that has devices is deleted."""
    tenant.create(RESOURCE_CLAIMS, card(name))
    tenant.create(PODS, pod_on("n2", name))
    eventually(lambda: waits(admin, name) or devices(admin, name))
    if devices(admin, name):
        remove(tenant, name)
        return False
    return True
