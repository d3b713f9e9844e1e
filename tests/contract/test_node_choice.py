"""What excludes a node for a pod is what excludes it in a real kube-scheduler.

A pod is offered one node at a time: it asks for a resource that only this node has, which changes nothing else about
the other nodes. It is then bound there, or kube-scheduler says why not.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from controller.placement import Nodes, PodCheck, facts_of, needs_of
from driver.kube.api import NAMESPACES, NODES, PODS, Api, Object
from driver.kube.client import KubeClient
from testclusters.controlplane import ControlPlane

NODE_NAMES = ("n1", "n2", "n3", "n4", "n5", "n6")
TEAMS = {"red": {"team": "red"}, "blue": {"team": "blue"}}
"""Namespaces and their labels."""
PHRASES = {
    "node taint": "untolerated taint",
    "the node is unschedulable": "unschedulable",
    "the node does not match the pod's": "didn't match Pod's node affinity/selector",
    "the node does not declare": "didn't match Pod's required features",
    "too many pods": "Too many pods",
    "insufficient": "Insufficient",
    "host port": "free ports",
    "no pod that the pod's required pod affinity": "didn't match pod affinity rules",
    "a pod that the pod's required anti-affinity": "didn't match pod anti-affinity rules",
    "the required anti-affinity of a pod": "didn't satisfy existing pods anti-affinity rules",
    "too many matching pods": "didn't match pod topology spread constraints",
}
"""The beginning of a reason, and what kube-scheduler says instead."""


def only(node: str) -> str:
    """The resource that only this node has."""
    return f"example.com/only-{node}"


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """The administrator of a cluster in which nothing but kube-scheduler changes pods and volumes."""
    with ControlPlane(components=("kube-scheduler",)) as plane:
        client = KubeClient.from_environment(str(plane.kubeconfig()))
        for name, labels in TEAMS.items():
            client.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
        for number, name in enumerate(NODE_NAMES):
            client.create(NODES, node(name, number))
        yield client
        client.close()


def node(name: str, number: int) -> Object:
    """Nodes n1 to n4 are in zones a and b; n4 has a taint, n5 no zone, and n6 is unschedulable."""
    labels = {"kubernetes.io/hostname": name, "disk": "ssd" if number % 2 else "hdd"}
    if name not in ("n5", "n6"):
        labels["zone"] = "ab"[number // 2]
    taints = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}] if name == "n4" else []
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "20", only(name): "1000"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints, "unschedulable": name == "n6"},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True"}],
            "declaredFeatures": ["RestartAllContainersOnContainerExits"] if number % 2 else [],
        },
    }


class RandomPods:
    """Pods with labels, affinity, spread and other wishes."""

    def __init__(self, seed: int):
        self._random = random.Random(seed)
        self._number = 0

    def pod(self) -> Object:
        """Another pod."""
        self._number += 1
        spec: Object = {"containers": [self._container()], "terminationGracePeriodSeconds": 0}
        affinity: Object = {}
        if self._chance(0.4):
            affinity["podAntiAffinity"] = self._required([self._term() for _ in range(self._among((1, 1, 2)))])
        if self._chance(0.3):
            affinity["podAffinity"] = self._required([self._term() for _ in range(self._among((1, 1, 2)))])
        if self._chance(0.2):
            disk = {"key": "disk", "operator": self._among(("In", "NotIn")), "values": ["ssd"]}
            affinity["nodeAffinity"] = {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [disk]}]}}
        if self._chance(0.4):
            keys = self._random.sample(("zone", "kubernetes.io/hostname"), self._among((1, 1, 2)))
            spec["topologySpreadConstraints"] = [self._constraint(key) for key in keys]
        if self._chance(0.4):
            spec["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
        labels = {key: self._among("ab") for key in ("app", "tier") if self._chance(0.7)}
        metadata = {"name": f"p{self._number}", "namespace": self._among(tuple(TEAMS)), "labels": labels}
        return {"metadata": metadata, "spec": {**spec, "affinity": affinity}}

    def node(self) -> str:
        """A node for a pod that runs already."""
        return self._random.choice(NODE_NAMES)

    def _container(self) -> Object:
        container: Object = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}
        if self._chance(0.15):
            container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        if self._chance(0.1):
            container["resources"] = {"requests": {"cpu": "3"}}
        if self._chance(0.1):
            rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
            container |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
        return container

    def _term(self) -> Object:
        term: Object = {"topologyKey": self._among(("zone", "kubernetes.io/hostname"))}
        if self._chance(0.9):
            term["labelSelector"] = self._selector()
            if self._chance(0.2):
                term[self._among(("matchLabelKeys", "mismatchLabelKeys"))] = ["tier"]
        if self._chance(0.2):
            term["namespaces"] = [self._among(tuple(TEAMS))]
        if self._chance(0.2):
            term["namespaceSelector"] = self._among(({}, {"matchLabels": {"team": "red"}}))
        return term

    def _constraint(self, key: str) -> Object:
        constraint: Object = {
            "topologyKey": key,
            "maxSkew": self._among((1, 1, 2)),
            "whenUnsatisfiable": "DoNotSchedule",
        }
        if self._chance(0.9):
            constraint["labelSelector"] = self._selector()
            if self._chance(0.2):
                constraint["matchLabelKeys"] = ["tier"]
        if self._chance(0.3):
            constraint["minDomains"] = self._among((1, 3, 7))
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if self._chance(0.3):
                constraint[policy] = self._among(("Honor", "Ignore"))
        return constraint

    def _selector(self) -> Object:
        if self._chance(0.1):
            return {}
        if self._chance(0.7):
            return {"matchLabels": {"app": self._among("ab")}}
        operator = self._among(("In", "NotIn", "Exists", "DoesNotExist"))
        values = {"values": ["a"]} if operator in ("In", "NotIn") else {}
        return {"matchExpressions": [{"key": "app", "operator": operator, **values}]}

    def _required(self, terms: Sequence[Object]) -> Object:
        return {_REQUIRED: list(terms)}

    def _chance(self, part: float) -> bool:
        return self._random.random() < part

    def _among(self, values: Sequence[Any]) -> Any:
        return self._random.choice(values)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Scheduler:
    """Asks kube-scheduler about one pod and one node at a time."""

    def __init__(self, api: Api):
        self._api = api
        version = api.list(PODS).resource_version
        self._events = api.watch(PODS, resource_version=version, timeout_seconds=300)

    def refusal(self, pod: Object, node: str) -> str:
        """Why kube-scheduler does not bind the pod to the node; "" if it does. The pod is gone afterwards."""
        offered = offer(pod, node)
        name, namespace = offered["metadata"]["name"], offered["metadata"]["namespace"]
        created = self._api.create(PODS, offered, namespace)
        message = self._verdict(created["metadata"]["uid"])
        self._api.delete(PODS, name, namespace, grace_period_seconds=0)
        return message

    def _verdict(self, uid: str) -> str:
        for event in self._events:
            seen = event.object
            if seen["metadata"].get("uid") != uid:
                continue
            if seen["spec"].get("nodeName"):
                return ""
            for condition in (seen.get("status") or {}).get("conditions") or ():
                if condition["type"] == "PodScheduled" and condition["status"] == "False":
                    return str(condition["message"])
        raise AssertionError("the watch ended before kube-scheduler decided")


def offer(pod: Object, node: str) -> Object:
    """The pod as it is offered to one node."""
    first, *others = pod["spec"]["containers"]
    resources = first["resources"]
    pinned = {**resources["requests"], only(node): "1"}
    first = {**first, "resources": {"requests": pinned, "limits": {only(node): "1"}}}
    metadata = {**pod["metadata"], "name": f"{pod['metadata']['name']}-{node}"}
    return {"metadata": metadata, "spec": {**pod["spec"], "containers": [first, *others]}}


def known(api: Api) -> Nodes:
    """The nodes and what runs on them, as the controller knows them."""
    nodes = Nodes()
    for namespace in api.list(NAMESPACES).items:
        nodes.pods.put_namespace(namespace["metadata"]["name"], namespace["metadata"].get("labels") or {})
    for each in api.list(NODES).items:
        nodes.upsert(facts_of(each))
    for pod in api.list(PODS).items:
        nodes.count(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", needs_of(pod), pod["spec"]["nodeName"])
    return nodes


def said(reasons: Sequence[str], message: str, phrases: Mapping[str, str]) -> bool:
    """Whether kube-scheduler gives one of the reasons: it names the first one of a node."""
    found = [phrase for reason in reasons for start, phrase in phrases.items() if reason.startswith(start)]
    missing = [reason for reason in reasons if reason.startswith("the node has no label")]
    return any(phrase in message for phrase in (*found, *(("affinity rules", "topology") if missing else ())))


@pytest.mark.parametrize("seed", range(4))
def test_the_verdict_on_each_node_is_kube_schedulers(api: Api, seed: int) -> None:
    pods = RandomPods(seed)
    running = []
    for _ in range(10):
        pod = pods.pod()
        pod["spec"]["nodeName"] = pods.node()
        running.append(api.create(PODS, pod, pod["metadata"]["namespace"])["metadata"])
    nodes, scheduler = known(api), Scheduler(api)
    differences = []
    for _ in range(12):
        pod = pods.pod()
        # matchLabelKeys are merged into the selectors by the API server.
        stored = api.create(
            PODS, {**pod, "spec": {**pod["spec"], "schedulingGates": [{"name": "a.b/c"}]}}, pod["metadata"]["namespace"]
        )
        api.delete(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"], grace_period_seconds=0)
        for name in NODE_NAMES:
            needs = needs_of(offer({**pod, "spec": {**stored["spec"]}}, name))
            reasons = PodCheck("ns/p", needs, nodes).reasons(name)
            message = scheduler.refusal(pod, name)
            if bool(reasons) != bool(message) or (reasons and not said(reasons, message, PHRASES)):
                differences.append((name, reasons, message, pod["spec"]))
    for metadata in running:
        api.delete(PODS, metadata["name"], metadata["namespace"], grace_period_seconds=0)
    assert not differences
