"""Pods that only few nodes may run get their devices there: affinities, volumes, topology spread; and by priority."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from testclusters.kind import KindCluster
from tests.e2e.client import Client, Object, eventually, eventually_none, names
from tests.e2e.nodes import PLUGIN_ACCOUNT
from tests.e2e.pods import pod, request, template
from tests.e2e.watcher import Watcher

HOSTNAME = "kubernetes.io/hostname"
ANY_CARD = "any-card"
"""The part of the class's name that `request` takes."""
AT_ONCE = 15.0
"""Seconds within which pods are bound that fit: several times what they need, and less than any back-off."""
LABELS = {"app": "replica"}


@pytest.fixture(scope="module", autouse=True)
def any_card(client: Client) -> Iterator[None]:
    """A class for a whole card of any vendor: every worker has some."""
    expression = 'device.driver == "lode.dev" && device.attributes["lode.dev"].kind in ["gpu", "npu"]'
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    with existing(client, "resource.k8s.io/v1", "DeviceClass", f"{ANY_CARD}.lode.dev", spec=spec):
        yield


@contextmanager
def existing(client: Client, api_version: str, kind: str, name: str, **content: Any) -> Iterator[None]:
    """An object outside namespaces that exists during the ``with`` block."""
    raw = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **content}
    client.kubectl("create", "-f", "-", input=json.dumps(raw))
    try:
        yield
    finally:
        client.kubectl("delete", kind.lower(), name, "--ignore-not-found", "--wait=false")


def replicas(client: Client, namespace: str, count: int, **spec: Any) -> None:
    """Create a Deployment whose pods request any card."""
    one = pod("replica", ANY_CARD, labels=LABELS, **spec)
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "replica"},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": one["spec"]},
        },
    }
    client.create(namespace, template(ANY_CARD, request(ANY_CARD)), deployment)


def one_on_each_node() -> Object:
    """The required anti-affinity of replicas to each other."""
    term = {"labelSelector": {"matchLabels": LABELS}, "topologyKey": HOSTNAME}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def wait_until_bound(client: Client, namespace: str, count: int) -> list[str]:
    """Wait until ``count`` pods of the namespace are bound; returns their nodes."""

    def bound() -> list[str]:
        nodes = [it["spec"]["nodeName"] for it in client.list("pods", namespace) if it["spec"].get("nodeName")]
        return nodes if len(nodes) == count else []

    return eventually(f"{count} pods are bound", bound, seconds=AT_ONCE)


def warnings(client: Client, namespace: str, name: str) -> list[Object]:
    """The Warning events about an object."""
    return client.list("events", namespace, fields=f"involvedObject.name={name},type=Warning")


def test_replicas_that_exclude_each_other_run_on_every_worker(client: Client, namespace: str) -> None:
    workers = client.cluster.workers
    replicas(client, namespace, len(workers), affinity=one_on_each_node())
    assert sorted(wait_until_bound(client, namespace, len(workers))) == sorted(workers)
    client.wait_until_ready(namespace)


@pytest.fixture
def six_nodes(client: Client, namespace: str, watcher: Watcher) -> Iterator[list[str]]:
    """The workers and as many nodes without kubelet as make six; each of those has the cards of the first worker."""
    workers = client.cluster.workers
    extra = [f"extra-{number}" for number in range(6 - len(workers))]
    capacity = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
    slices = client.list("resourceslices", fields=f"spec.nodeName={workers[0]}")
    try:
        for node in extra:
            labels = {HOSTNAME: node}
            raw = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}, "status": status}
            client.kubectl("create", "-f", "-", input=json.dumps(raw))
            publish(client, watcher, node, slices)
        eventually("the nodes take pods", lambda: all(not taints(client, node) for node in extra))
        yield [*workers, *extra]
    finally:
        client.delete(namespace, "deployment")
        eventually_none("nothing creates pods", lambda: client.list("replicasets", namespace))
        force = ("--force", "--grace-period=0", "--ignore-not-found")
        client.kubectl("delete", "pods", "--all", f"--namespace={namespace}", *force)
        for node in extra:
            client.kubectl("delete", "node", node, "--ignore-not-found")
            own = f"--field-selector=spec.nodeName={node}"
            client.kubectl("delete", "resourceslices", own, *as_plugin(node))
            client.kubectl("delete", "pods", "--all-namespaces", own, *force)


def publish(client: Client, watcher: Watcher, node: str, slices: list[Object]) -> None:
    """Publish copies of another node's slices for ``node``, as its plugin would."""
    for raw in slices:
        spec = {**raw["spec"], "nodeName": node, "pool": {**raw["spec"]["pool"], "name": f"{node}/lode.dev"}}
        name = raw["metadata"]["name"].replace(raw["spec"]["nodeName"], node, 1)
        copy = {**raw, "metadata": {"name": name}, "spec": spec}
        watcher.learn(copy)
        client.kubectl("create", "-f", "-", *as_plugin(node), input=json.dumps(copy))


def as_plugin(node: str) -> tuple[str, ...]:
    """Options of kubectl: act as the kubelet plugin on a node."""
    return (f"--as={PLUGIN_ACCOUNT}", f"--as-user-extra=authentication.kubernetes.io/node-name={node}")


def taints(client: Client, node: str) -> list[Object]:
    return list(client.get("nodes", node)["spec"].get("taints", []))


def test_four_replicas_that_exclude_each_other_are_bound_on_six_nodes(
    client: Client, namespace: str, six_nodes: list[str]
) -> None:
    replicas(client, namespace, 4, affinity=one_on_each_node())
    bound = wait_until_bound(client, namespace, 4)
    assert len(set(bound)) == 4
    assert set(bound) <= set(six_nodes)


def test_replicas_that_must_be_spread_run_on_every_worker(client: Client, namespace: str) -> None:
    workers = client.cluster.workers
    constraint = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": LABELS},
    }
    replicas(client, namespace, len(workers), topologySpreadConstraints=[constraint])
    assert sorted(wait_until_bound(client, namespace, len(workers))) == sorted(workers)
    client.wait_until_ready(namespace)


def test_a_pod_is_bound_where_its_volume_is(client: Client, cluster: KindCluster, namespace: str) -> None:
    node, name = cluster.workers[-1], f"{namespace}-disk"
    cluster.node_exec(node, "mkdir", "-p", "/var/local/lode-e2e")
    with existing(client, "v1", "PersistentVolume", name, spec=volume_on(node, namespace)):
        client.create(namespace, claim_of(name), template(ANY_CARD, request(ANY_CARD)))
        eventually("the volume is bound", lambda: phase_of_disk(client, namespace) == "Bound")
        volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]
        pinned = pod("pinned", ANY_CARD, volumes=volumes)
        pinned["spec"]["containers"][0]["volumeMounts"] = [{"name": "disk", "mountPath": "/disk"}]
        client.create(namespace, pinned)
        assert wait_until_bound(client, namespace, 1) == [node]
        assert warnings(client, namespace, "pinned") == []
        client.wait_until_ready(namespace, "pinned")
        client.delete(namespace, "pods")
        client.delete(namespace, "pvc")


def phase_of_disk(client: Client, namespace: str) -> str:
    return str(client.get("persistentvolumeclaims", "disk", namespace)["status"]["phase"])


def claim_of(volume: str) -> Object:
    """The claim ``disk`` of a volume."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "volumeName": volume,
        "resources": {"requests": {"storage": "1Mi"}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "disk"}, "spec": spec}


def volume_on(node: str, namespace: str) -> Object:
    """The specification of a local volume of a node, for the claim ``disk``."""
    on_node = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
    return {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": namespace, "name": "disk"},
        "local": {"path": "/var/local/lode-e2e"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [on_node]}},
    }


def test_a_freed_card_goes_to_the_pod_of_the_highest_priority(client: Client, namespace: str) -> None:
    only = request(selector='device.attributes["lode.dev"].index == 0')
    client.create(namespace, template("only", only), pod("holder", "only", profile="a100x4"))
    client.wait_until_ready(namespace, "holder")
    card = client.devices(namespace, "holder")
    with priority_class(client, f"{namespace}-low", 1), priority_class(client, f"{namespace}-high", 1000):
        for level in ("low", "high"):
            waiting = pod(level, "only", profile="a100x4", priorityClassName=f"{namespace}-{level}")
            client.create(namespace, waiting)
            eventually(f"{level} waits", lambda name=level: warnings(client, namespace, name))  # type: ignore[misc]
        client.delete(namespace, "pod", "holder")
        client.wait_until_ready(namespace, "high")
        assert client.devices(namespace, "high") == card
        assert client.devices(namespace, "low") == set()
        client.delete(namespace, "pod", "high")
        client.wait_until_ready(namespace, "low")
        assert client.devices(namespace, "low") == card


@contextmanager
def priority_class(client: Client, name: str, value: int) -> Iterator[None]:
    """A priority whose pods preempt no others."""
    content = {"value": value, "preemptionPolicy": "Never"}
    with existing(client, "scheduling.k8s.io/v1", "PriorityClass", name, **content):
        yield


def test_describe_tells_once_why_no_node_takes_a_pod(client: Client, namespace: str) -> None:
    count = len(client.cluster.workers)
    replicas(client, namespace, count + 1, affinity=one_on_each_node())
    wait_until_bound(client, namespace, count)

    def refused() -> list[str]:
        waiting = [it for it in client.list("pods", namespace) if not it["spec"].get("nodeName")]
        return [name for name in names(waiting) if warnings(client, namespace, name)]

    (name,) = eventually("one replica is refused", refused)
    client.wait_until_ready(namespace, *(it for it in names(client.list("pods", namespace)) if it != name))
    described = client.kubectl("describe", "pod", name, f"--namespace={namespace}")
    told = [line for line in described.partition("\nEvents:")[2].splitlines() if "Warning" in line]
    assert len(told) == 1, described
    useful, _, rest = told[0].partition("taint")
    assert useful.count("a pod that the pod's required anti-affinity excludes") == 1, told[0]
    assert "anti-affinity" not in rest, told[0]
