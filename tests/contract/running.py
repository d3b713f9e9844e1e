"""The whole controller beside real Kubernetes components, on nodes with cards."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from driver.kube.api import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, Object
from driver.kube.client import KubeClient
from testclusters.commands import start_process
from testclusters.controlplane import ControlPlane
from tests.contract.conftest import SERVICE_ACCOUNTS, eventually
from tests.contract.identity import CONTROLLER

SETTINGS = "settings.yaml"
"""The controller's settings, in the folder of the control plane."""


@contextmanager
def running(
    nodes: Mapping[str, Mapping[str, str]],
    tiers: Object,
    cards: Mapping[str, str] | None = None,
    flags: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[tuple[ControlPlane, Api]]:
    """As ``installed``, with the controller running.

    Args:
        tiers: the setting ``controller.volcanoTiers``.
    """
    with installed(nodes, {"volcanoTiers": tiers}, cards, flags) as (plane, api), running_controller(plane):
        yield plane, api


def with_gates(gates: str) -> Mapping[str, Sequence[str]]:
    """The flags of programs with these feature gates, where the API server also serves what is off by default."""
    gate = f"--feature-gates={gates}"
    served = [gate, "--runtime-config=api/alpha=true,api/beta=true"]
    return {"kube-apiserver": served, "kube-controller-manager": [gate], "kube-scheduler": [gate]}


def template_of_two(api: Api) -> None:
    """Create the claim template "two" for two cards of one node."""
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.lode.dev", "count": 2}}]}}
    metadata = {"name": "two", "namespace": "default"}
    api.create(RESOURCE_CLAIM_TEMPLATES, {"metadata": metadata, "spec": {"spec": spec}})


@contextmanager
def installed(
    nodes: Mapping[str, Mapping[str, str]],
    settings: Object,
    cards: Mapping[str, str] | None = None,
    flags: Mapping[str, Sequence[str]] | None = None,
    slices: Sequence[Object] = (),
) -> Iterator[tuple[ControlPlane, Api]]:
    """The control plane and its administrator, with the driver and the CustomResourceDefinition of Volcano's PodGroup.

    Args:
        nodes: the labels of each node; each has four cards.
        settings: of the controller, its own section.
        cards: attributes of every card.
        slices: what other nodes publish; once the policies are in force, only the plugin may.
    """
    with ControlPlane(flags=flags) as plane:
        api = KubeClient.from_environment(str(plane.kubeconfig()))
        for name, labels in nodes.items():
            plane.add_node(name, labels)
            api.create(RESOURCE_SLICES, _cards(name, cards or {}))
        for obj in slices:
            api.create(RESOURCE_SLICES, obj)
        plane.kubectl("apply", "-k", "manifests/controller-allocated")
        plane.kubectl("apply", "-f", "tests/data/crds/volcano-podgroup.yaml")
        eventually(lambda: api.get(SERVICE_ACCOUNTS, "default", "default"))
        eventually(lambda: is_gated(api), 60)
        (plane.folder / SETTINGS).write_text(json.dumps({"observeAddress": "", "controller": settings}))
        try:
            yield plane, api
        finally:
            api.close()


@contextmanager
def running_controller(plane: ControlPlane, *program: str) -> Iterator["subprocess.Popen[bytes]"]:
    """The process of the controller, or of ``program``, which takes the same options.

    Raises:
        AssertionError: the controller has ended by itself. In a cluster it would be started again.
    """
    groups = ("system:serviceaccounts", "system:serviceaccounts:lode-system")
    options = ["--settings", str(plane.folder / SETTINGS), "--kubeconfig", str(plane.kubeconfig(CONTROLLER, groups))]
    command = [sys.executable, "-m", *(program or ("controller",)), *options]
    process = start_process(command, plane.folder / "controller.log", {**os.environ, "PYTHONFAULTHANDLER": "1"})
    try:
        yield process
    finally:  # a test that fails leaves no program to the tests after it
        ended = process.poll()
        process.terminate()
        process.wait(30)
        assert program or ended is None, f"the controller has ended with status {ended}:\n{plane.log('controller')}"


@contextmanager
def state_if_it_fails(plane: ControlPlane) -> Iterator[None]:
    """Add to what fails the block what the controller has logged and which pods, claims and slices there are."""
    try:
        yield
    except BaseException as failure:
        log = plane.log("controller") if (plane.folder / "controller.log").exists() else "none"
        found = plane.kubectl("get", "pods,resourceclaims,resourceslices", "-A", "-o", "yaml", check=False).stdout
        failure.add_note(f"the controller's log:\n{log[-8000:]}\npods, claims and slices:\n{found[-30000:]}")
        raise


def _cards(node: str, attributes: Mapping[str, str]) -> Object:
    pool = {"name": f"{node}/lode.dev", "generation": 1, "resourceSliceCount": 1}
    own = {name: {"string": value} for name, value in {"kind": "gpu", **attributes}.items()}
    devices = [{"name": f"gpu-{number}", "attributes": own} for number in range(4)]
    spec = {"driver": "lode.dev", "pool": pool, "nodeName": node, "devices": devices}
    return {"metadata": {"name": f"{node}-lode"}, "spec": spec}


def is_gated(api: Api) -> bool:
    """Whether the gate is in force."""
    claims = [{"name": "cards", "resourceClaimName": "none"}]
    spec = {"containers": [{"name": "main", "image": "none"}], "resourceClaims": claims}
    created = api.create(PODS, {"metadata": {"name": "probe", "namespace": "default"}, "spec": spec})
    api.delete(PODS, "probe", "default", grace_period_seconds=0)
    return bool(created["spec"].get("schedulingGates"))


def nodes_of(api: Api, *pods: str) -> list[str]:
    """The node of each pod; empty until all are bound."""
    found = [api.get(PODS, name, "default")["spec"].get("nodeName", "") for name in pods]
    return found if all(found) else []


def waits(api: Api, pod: str) -> Object | None:
    """The condition of a pod that waits; None if it does not say so."""
    conditions = api.get(PODS, pod, "default")["status"].get("conditions") or ()
    return next((one for one in conditions if one["type"] == "lode.dev/Allocated" and one["status"] == "False"), None)


def message_of(api: Api, pod: str) -> str:
    """What a pod that waits is told; "" before it is told anything."""
    return str((waits(api, pod) or {"message": ""})["message"])


def waits_because(api: Api, pod: str, *reasons: str) -> Object | None:
    """The condition of a pod that waits for one of these reasons; None if it does not.

    Its first reason may be another one: the controller may hear of a pod before it hears of its claims.
    """
    condition = waits(api, pod)
    return condition if condition is not None and condition["reason"] in reasons else None


def remove(api: Api, *pods: str) -> None:
    """Delete the pods and wait until their devices are free."""
    for name in pods:
        api.delete(PODS, name, "default", grace_period_seconds=0)
    eventually(lambda: not api.list(RESOURCE_CLAIMS, namespace="default").items)


def let_run(api: Api, pod: Object) -> None:
    """Do what a kubelet does with a pod of its node: it runs, or it is gone once it is deleted."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    if pod["metadata"].get("deletionTimestamp"):
        api.delete(PODS, name, namespace, grace_period_seconds=0)
    elif pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending":
        conditions = [*pod["status"].get("conditions", []), {"type": "Ready", "status": "True"}]
        containers = [
            {"name": it["name"], "ready": True, "restartCount": 0, "image": it["image"], "imageID": ""}
            for it in pod["spec"]["containers"]
        ]
        status = {"phase": "Running", "conditions": conditions, "containerStatuses": containers}
        api.patch(PODS, name, {"status": status}, namespace=namespace, subresource="status")
