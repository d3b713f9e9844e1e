"""Where a pod with a volume can run is where a real kube-scheduler lets it run.

Every case is offered to each of two nodes apart, with objects of its own. Nothing but kube-scheduler acts on volumes
here: for volumes that it would have bound it nominates the pod for the node, and then waits.
"""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from driver.kube.api import (
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
    Api,
    Object,
)
from driver.kube.client import KubeClient
from testclusters.controlplane import ControlPlane
from tests.contract.conftest import eventually
from tests.volume_cases import CASES, HOST, ZONE, Objects

NODE_NAMES = ("n1", "n2")
UNSTORABLE = ("an affinity without a term", "a class that provisions nowhere", "a claim of a class that does not exist")
"""Cases that the API server does not accept, or that kube-scheduler answers with another sentence."""
UNLIMITED = "a bound volume without affinity"
PHRASES = {
    "a volume of the pod cannot be used": "didn't match PersistentVolume's node affinity",
    "a volume of the pod is in another zone": "no available volume zone",
    "a volume of the pod is being provisioned": "didn't find available persistent volumes to bind",
    "no volume for": "didn't find available persistent volumes to bind",
    "PersistentVolumeClaim ns/data is not bound": "unbound immediate PersistentVolumeClaims",
    "PersistentVolumeClaim": "persistentvolumeclaim",
    "PersistentVolume pv": "persistentvolume",
}
"""The beginning of a reason, and what kube-scheduler says instead."""


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """The administrator of a cluster with the two nodes of the cases."""
    with ControlPlane(components=("kube-scheduler",)) as plane:
        client = KubeClient.from_environment(str(plane.kubeconfig()))
        for name, zone in zip(NODE_NAMES, "ab", strict=True):
            capacity = {"cpu": "4", "pods": "200", f"example.com/only-{name}": "1000"}
            status = {
                "capacity": capacity,
                "allocatable": capacity,
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            client.create(NODES, {"metadata": {"name": name, "labels": {HOST: name, ZONE: zone}}, "status": status})
        yield client
        client.close()


class Offer:
    """One case and one node: objects with names of their own, and a pod that asks for what only the node has."""

    def __init__(self, api: Api, number: int, objects: Objects, node: str):
        self._api = api
        self._id = f"case-{number}-{node}"
        self._node = node
        api.create(NAMESPACES, {"metadata": {"name": self._id}})
        for each in objects.classes:
            name = f"{each['metadata']['name']}-{self._id}"
            api.create(STORAGE_CLASSES, {**each, "metadata": {"name": name}})
        claims = [self._claim(each) for each in objects.claims]
        for each in objects.volumes:
            self._volume(each, claims[0]["metadata"]["uid"])

    def verdict(self) -> str:
        """Why kube-scheduler does not let the pod run on the node, "fits" if it does; "" if it has not decided."""
        pod = self._api.get(PODS, "p", self._id)
        if pod["spec"].get("nodeName") or pod["status"].get("nominatedNodeName") == self._node:
            return "fits"
        conditions = pod["status"].get("conditions") or ()
        return next((entry["message"] for entry in conditions if entry["type"] == "PodScheduled"), "")

    def _claim(self, raw: Object) -> Object:
        claim: Any = copy.deepcopy(raw)
        phase, spec = claim.pop("status")["phase"], claim["spec"]
        metadata = {key: claim["metadata"].get(key) for key in ("name", "annotations")}
        spec["volumeName"] = spec["volumeName"] and f"{spec['volumeName']}-{self._id}"
        spec["storageClassName"] = spec["storageClassName"] and f"{spec['storageClassName']}-{self._id}"
        deleting = "deletionTimestamp" in raw["metadata"]
        if deleting:
            metadata["finalizers"] = ["example.com/kept"]
        created = self._api.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": metadata, "spec": spec}, self._id)
        stored = self._api.update(PERSISTENT_VOLUME_CLAIMS, {**created, "status": {"phase": phase}}, "status")
        if deleting:
            self._api.delete(PERSISTENT_VOLUME_CLAIMS, metadata["name"], self._id)
        return stored

    def _volume(self, raw: Object, uid: str) -> None:
        volume: Any = copy.deepcopy(raw)
        spec = {"hostPath": {"path": "/none"}, **volume["spec"]}
        if spec.get("storageClassName"):
            spec["storageClassName"] += f"-{self._id}"
        if "csi" in spec:
            del spec["hostPath"]
        if reserved := spec.get("claimRef"):
            reserved |= {"namespace": self._id} | ({"uid": uid} if reserved.get("uid") == "u" else {})
        metadata = {"name": f"{volume['metadata']['name']}-{self._id}", "labels": volume["metadata"]["labels"]}
        created = self._api.create(PERSISTENT_VOLUMES, {"metadata": metadata, "spec": spec})
        self._api.update(PERSISTENT_VOLUMES, {**created, "status": volume["status"]}, "status")

    def begin(self) -> None:
        """Create the pod."""
        pinned = {f"example.com/only-{self._node}": "1"}
        container = {"name": "main", "image": "none", "resources": {"requests": pinned, "limits": pinned}}
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [container], "volumes": [volume]}}
        self._api.create(PODS, pod, self._id)


def test_the_verdict_on_each_node_is_kube_schedulers(api: Api) -> None:
    offers = [
        (name, node, reasons, Offer(api, number, objects, node))
        for number, (name, objects, expected) in enumerate(CASES)
        if name not in UNSTORABLE
        for node, reasons in zip(NODE_NAMES, expected, strict=True)
    ]
    # kube-scheduler gets the changes of a kind in order: when it knows this claim, it knows all of the others.
    last = Offer(api, len(CASES), {case[0]: case[1] for case in CASES}[UNLIMITED], NODE_NAMES[0])
    last.begin()
    eventually(lambda: last.verdict() == "fits")
    for *_, offer in offers:
        offer.begin()
    open_offers = list(offers)

    def all_agree() -> bool:
        # What kube-scheduler has not seen yet may change its verdict, so only the last one counts.
        open_offers[:] = [offer for offer in open_offers if not agrees(offer[2], offer[3].verdict())]
        return not open_offers

    try:
        eventually(all_agree, seconds=15)
    except AssertionError:
        pytest.fail(
            "\n".join(f"{name} on {node}: {why} but {offer.verdict()}" for name, node, why, offer in open_offers)
        )


def agrees(reasons: tuple[str, ...], verdict: str) -> bool:
    """Whether kube-scheduler says the same."""
    if not reasons:
        return verdict == "fits"
    return any(phrase in verdict for reason in reasons for start, phrase in PHRASES.items() if reason.startswith(start))
