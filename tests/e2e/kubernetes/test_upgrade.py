"""Kubernetes is upgraded in place, while pods hold devices and a gang waits at the gate.

`make upgrade-kubernetes` makes a cluster of the newest version with a release for it.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from testclusters.kind import KindCluster
from testclusters.kindupgrade import upgrade_control_plane, upgrade_kubelet
from testclusters.programs import NEWEST, UPCOMING
from tests.e2e import nodes
from tests.e2e.client import Client, Object, eventually, eventually_none
from tests.e2e.controller import check_usage_matches_claims
from tests.e2e.pods import pod, request, template
from tests.e2e.watcher import Watcher

pytestmark = [
    pytest.mark.release,
    pytest.mark.skipif(os.environ.get("LODE_UPGRADE") != UPCOMING, reason="make upgrade-kubernetes runs this"),
]

_PROFILE = 'device.attributes["lode.dev"].profile == '
_GPUS, _MIGS, _NPUS = "h100x8", "a100x4", "ascend310px4"
_REQUESTS = {
    "whole": request("gpu"),
    "share": request("gpu-share", memory="8Gi"),
    "mig": request("mig", selector=f'{_PROFILE}"1g.5gb"'),
    "npu": request("npu"),
    "vnpu": request("vnpu", selector=f'{_PROFILE}"vir02"'),
}
_NODES = {"whole": _GPUS, "share": _MIGS, "mig": _MIGS, "npu": _NPUS, "vnpu": _NPUS}
_GANG = ("gang-0", "gang-1")


def test_nothing_moves_and_nothing_is_lost_while_kubernetes_is_upgraded(
    client: Client, cluster: KindCluster, namespace: str, watcher: Watcher
) -> None:
    assert cluster.kubernetes == NEWEST
    story = Story(client, namespace)
    story.start("first")
    client.apply(namespace, gang_template())
    client.create(namespace, *(pod(name, "gang", profile=_GPUS) for name in _GANG))
    eventually("the gang is told why it waits", lambda: story.gang_waits())
    began = story.containers()

    # A kubelet that is newer than its API server, which Kubernetes does not support.
    upgrade_kubelet(cluster, cluster.workers[0], UPCOMING)
    story.check(began)
    story.start("second", "whole")
    story.end("second", "whole")

    # Kubelets that are older than their API server, on all other nodes.
    upgrade_control_plane(cluster, UPCOMING)
    story.check(began)
    story.start("third")
    story.end("third", *_REQUESTS)
    check_usage_matches_claims(client, watcher)

    for node in (cluster.control_plane, *cluster.workers[1:]):
        upgrade_kubelet(cluster, node, UPCOMING)
    story.check(began)
    assert story.gang_waits()

    story.end("first", "whole")
    client.wait_until_ready(namespace, *_GANG)
    story.start("fourth", "share", "mig", "npu")
    check_usage_matches_claims(client, watcher)


class Story:
    """Pods with claims of each kind, in one namespace."""

    def __init__(self, client: Client, namespace: str):
        self._client = client
        self._namespace = namespace
        client.apply(namespace, *(template(name, it) for name, it in _REQUESTS.items()))

    def start(self, wave: str, *kinds: str) -> None:
        """Make a pod with a claim of each of these kinds, of all kinds without them, and wait until all are ready."""
        names = {f"{kind}-{wave}": kind for kind in kinds or _REQUESTS}
        made = [pod(name, kind, profile=_NODES[kind]) for name, kind in names.items()]
        self._client.create(self._namespace, *made)
        self._client.wait_until_ready(self._namespace, *names)

    def end(self, wave: str, *kinds: str) -> None:
        """Delete the pods, and wait until their claims have nothing on the nodes."""
        names = [f"{kind}-{wave}" for kind in kinds]
        claims = self._client.claims(self._namespace)
        uids = {claim["metadata"]["uid"] for name in names for claim in claims[name].values()}
        self._client.delete(self._namespace, "pods", *names)
        eventually_none("nothing is left on the nodes", lambda: nodes.leftovers(self._client, uids))

    def containers(self) -> Mapping[str, Any]:
        """What must not change: of each pod that runs its container, how often it began, its node and its devices."""
        listed = self._client.list("pods", self._namespace)
        return {it["metadata"]["name"]: self._kept(it) for it in listed if it["spec"].get("nodeName")}

    def check(self, before: Mapping[str, Any]) -> None:
        """All that ran before runs on as it was, and the gang has nothing."""
        self._client.wait_until_ready(self._namespace, *before)
        now = self.containers()
        assert {name: now[name] for name in before} == before
        assert not any(self._client.devices(self._namespace, name) for name in _GANG)

    def gang_waits(self) -> bool:
        """Whether each pod of the gang says so."""
        pods = {it["metadata"]["name"]: it for it in self._client.list("pods", self._namespace)}
        return all(_waits(pods[name]) for name in _GANG)

    def _kept(self, it: Object) -> Sequence[Any]:
        (status,) = it["status"]["containerStatuses"]
        devices = sorted(self._client.devices(self._namespace, it["metadata"]["name"]))
        return (status["containerID"], status["restartCount"], it["spec"]["nodeName"], devices)


def gang_template() -> Object:
    """Of a gang that needs every GPU of the first worker, of which a pod has one."""
    parameters = {
        "apiVersion": "lode.dev/v1alpha1",
        "kind": "PlacementConfig",
        "gang": {"name": "gang", "minAvailable": len(_GANG)},
    }
    return template(
        "gang", request("gpu", count=4), config=[{"opaque": {"driver": "lode.dev", "parameters": parameters}}]
    )


def _waits(it: Object) -> bool:
    conditions = it["status"].get("conditions", [])
    return any(one["type"] == "lode.dev/Allocated" and one["status"] == "False" for one in conditions)
