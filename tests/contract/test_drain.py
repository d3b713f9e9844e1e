"""``lode drain`` of a card that a Deployment holds by a claim of its own name, beside Kubernetes' own controllers.

The ReplicaSet makes the next pod as soon as the old one is told to end, and it gets the same claim. Only the kubelet is
a stand-in.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from cli.__main__ import main as lode
from driver.kube.api import PODS, RESOURCE_CLAIMS, Api, ApiError, Object, Resource
from driver.kube.client import KubeClient
from testclusters.controlplane import ControlPlane
from tests.contract.conftest import eventually
from tests.contract.running import running

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
GRACE_SECONDS = 3


class Kubelet:
    """Runs what is bound, and ends what is deleted after its grace period.

    Attributes:
        seen: the uids of all pods that there ever were.
    """

    def __init__(self, api: Api):
        self._api = api
        self._ending: dict[str, int] = {}
        self.seen: set[str] = set()

    def step(self) -> None:
        """Look at every pod once."""
        for pod in self._api.list(PODS, namespace="default").items:
            metadata, uid = pod["metadata"], pod["metadata"]["uid"]
            self.seen.add(uid)
            with suppress(ApiError):
                if metadata.get("deletionTimestamp"):
                    self._ending[uid] = self._ending.get(uid, 0) + 1
                    if self._ending[uid] > 3 * GRACE_SECONDS:
                        self._api.delete(PODS, metadata["name"], "default", grace_period_seconds=0)
                elif pod["spec"].get("nodeName") and pod["status"].get("phase") != "Running":
                    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
                    where: Any = {"namespace": "default", "subresource": "status", "patch_type": "strategic"}
                    self._api.patch(PODS, metadata["name"], {"status": running}, **where)


@contextmanager
def kubelet(plane: ControlPlane) -> Iterator[Kubelet]:
    """A stand-in for the kubelets, three times a second."""
    api, stop = KubeClient.from_environment(str(plane.kubeconfig())), threading.Event()
    made = Kubelet(api)

    def run() -> None:
        while not stop.wait(0.3):
            with suppress(ApiError):
                made.step()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield made
    finally:
        stop.set()
        thread.join()
        api.close()


def serving() -> Object:
    """A Deployment of one pod that uses the claim ``serve``."""
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "card"}]}}
    spec = {
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "resourceClaims": [{"name": "card", "resourceClaimName": "serve"}],
        "containers": [container],
    }
    labels = {"app": "serve"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "metadata": {"name": "serve", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }


def devices(api: Api) -> list[str]:
    """``node/device`` of what the claim holds."""
    status = api.get(RESOURCE_CLAIMS, "serve", "default").get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    return [f"{result['pool'].split('/')[0]}/{result['device']}" for result in results]


def is_running(api: Api) -> bool:
    """Whether a pod runs that is not told to end."""
    pods = api.list(PODS, namespace="default").items
    return any(pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp") for pod in pods)


def test_a_card_under_a_deployment_is_drained_with_one_eviction(capsys: pytest.CaptureFixture[str]) -> None:
    with running({"n1": {}, "n2": {}}, {}) as (plane, api), kubelet(plane) as pods:
        requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.lode.dev"}}]
        metadata = {"name": "serve", "namespace": "default"}
        api.create(RESOURCE_CLAIMS, {"metadata": metadata, "spec": {"devices": {"requests": requests}}})
        api.create(DEPLOYMENTS, serving())
        eventually(lambda: is_running(api), 60)
        (card,) = devices(api)
        status = lode(["drain", card, "--timeout", "60s", "--kubeconfig", str(plane.kubeconfig())])
        shown = capsys.readouterr()
        assert status == 0, shown.err
        assert shown.out.count("evicting pod default/serve-") == 1
        eventually(lambda: is_running(api) and devices(api) not in ([], [card]), 60)
        assert len(pods.seen) == 2
