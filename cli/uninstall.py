"""The work of ``lode uninstall``: one step after the other, each of which may be repeated."""

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from cli.exitcodes import PLACED, WAITS
from cli.live import cluster, list_all
from controller.state.knownnodes import DO_NOT_DISRUPT, ending_protection
from controller.state.templates import is_made_on_demand
from driver.errors import OperatorFault
from driver.kube.api import (
    DAEMON_SETS,
    DEPLOYMENTS,
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
    Api,
    Conflict,
    Forbidden,
    NotFound,
    Object,
    Resource,
)
from driver.kube.objects import object_key
from driver.limits import first_of
from driver.names import FINALIZER, Names

_GATE_POLICIES: Final = (MUTATING_BINDINGS, MUTATING_POLICIES)
_POLICIES: Final = (VALIDATING_BINDINGS, VALIDATING_POLICIES)
_WORKLOADS: Final = (DEPLOYMENTS, DAEMON_SETS)
_OF_ADOPTION: Final = ("adopted-", "not-adopted-")
_PART_OF: Final = "app.kubernetes.io/part-of=lode"
_PROGRAMS: Final = "app.kubernetes.io/name in (lode-controller, lode-kubeletplugin)"
_PATIENCE_SECONDS: Final = 120.0
_PAUSE_SECONDS: Final = 0.5


def run(arguments: argparse.Namespace) -> int:
    """Uninstall as the command's arguments say; the exit status."""
    with cluster(arguments.kubeconfig, arguments.context) as (api, _):
        return Uninstall(api, Names(arguments.driver)).run(arguments.force)


class Uninstall:
    """The steps, in an order in which each can be repeated.

    Gates come first, so that no pod waits for a controller that is gone. The policy of allocations comes last, so that
    kube-scheduler allocates no device while its slice exists.
    """

    def __init__(self, api: Api, names: Names):
        self._api = api
        self._names = names

    def run(self, force: bool) -> int:
        """Take all steps; the exit status.

        Raises:
            OperatorFault: a right is missing, or something did not come about in time. Calling again continues.
        """
        using = self._claims_in_use()
        if using and not force:
            sys.stderr.write(
                f"lode uninstall: pods use devices of {len(using)} claims ({_some(using)}); delete these pods, "
                "or add --force to let them run on without a driver\n"
            )
            return WAITS
        self._delete_ours(_GATE_POLICIES)
        # Pods of other systems are let through again as they are.
        self._delete_ours(_POLICIES, lambda name: name.startswith(_OF_ADOPTION))
        self._wait("no pod has the gate", self._pods_with_gate_after_lifting)
        for resource in _WORKLOADS:
            for obj in self._labelled(resource, _PART_OF):
                self._delete(resource, obj)
        self._wait("the programs have ended", lambda: self._labelled(PODS, _PROGRAMS))
        self._wait("autoscalers have all nodes back", self._nodes_after_giving_back)
        for template in self._labelled(RESOURCE_CLAIM_TEMPLATES, self._names.on_demand):
            if is_made_on_demand(template, self._names):
                self._delete(RESOURCE_CLAIM_TEMPLATES, template)
        self._delete_ours(_POLICIES, lambda name: name == f"own-slices.{self._names.driver}")
        self._wait("no slice is left", self._slices_after_deleting)
        self._delete_ours(_POLICIES)
        self._wait("no claim that nobody uses is allocated", self._claims_after_clearing)
        if moved := [obj for obj in list_all(self._api, DAEMON_SETS) if self._registers_with_ours(obj)]:
            print(
                f"Device plugins that nobody serves any more: {_some(moved, most=len(moved))}. Apply the manifests of "
                "their vendors, with /var/lib/kubelet/device-plugins of the host, and the kubelet serves them again."
            )
        print("Done. Now remove device classes, roles and namespaces: helm uninstall, or kubectl delete -k.")
        return PLACED

    def _claims_in_use(self) -> list[Object]:
        return [claim for claim in self._our_claims() if claim["status"].get("reservedFor")]

    def _our_claims(self) -> list[Object]:
        return [claim for claim in list_all(self._api, RESOURCE_CLAIMS) if self._holds_our_devices(claim)]

    def _holds_our_devices(self, claim: Object) -> bool:
        allocation = claim.get("status", {}).get("allocation") or {}
        results = (allocation.get("devices") or {}).get("results") or []
        return any(result["driver"] == self._names.driver for result in results)

    def _registers_with_ours(self, daemon_set: Object) -> bool:
        """Whether it is a device plugin that mounts the folder of the kubelet plugin."""
        volumes = daemon_set["spec"]["template"]["spec"].get("volumes") or []
        folders = [(volume.get("hostPath") or {}).get("path") or "" for volume in volumes]
        return any(path.rstrip("/").endswith(f"/plugins/{self._names.driver}/device-plugins") for path in folders)

    def _delete_ours(self, resources: Iterable[Resource], chosen: Callable[[str], bool] = lambda name: True) -> None:
        for resource in resources:
            for obj in list_all(self._api, resource):
                name = obj["metadata"]["name"]
                if name.endswith(f".{self._names.driver}") and chosen(name):
                    self._delete(resource, obj)

    def _pods_with_gate_after_lifting(self) -> list[Object]:
        gate = self._names.gate
        pods = [pod for pod in list_all(self._api, PODS) if gate in _gates(pod)]
        for pod in pods:
            rest = [{"name": name} for name in _gates(pod) if name != gate]
            patch = {
                "metadata": {"uid": pod["metadata"]["uid"], "resourceVersion": pod["metadata"]["resourceVersion"]},
                "spec": {"schedulingGates": rest},
            }
            self._try(partial(self._patch, PODS, pod, patch), "lifted the gate of", pod)
        return pods

    def _nodes_after_giving_back(self) -> list[Object]:
        nodes = list_all(self._api, NODES)
        kept = [node for node in nodes if self._names.protection in (node["metadata"].get("annotations") or {})]
        for node in kept:
            metadata = node["metadata"]
            changes = ending_protection(self._names, metadata["annotations"].get(DO_NOT_DISRUPT))
            patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "annotations": {**changes}}}
            self._try(partial(self._patch, NODES, node, patch), "gave autoscalers back", node)
        return kept

    def _slices_after_deleting(self) -> list[Object]:
        ours = [it for it in list_all(self._api, RESOURCE_SLICES) if it["spec"]["driver"] == self._names.driver]
        for obj in ours:
            # Refused until the API server has noticed that the policy is gone.
            self._try(partial(self._api.delete, RESOURCE_SLICES, obj["metadata"]["name"]), "deleted", obj)
        return ours

    def _claims_after_clearing(self) -> list[Object]:
        claims = [claim for claim in self._our_claims() if not claim["status"].get("reservedFor")]
        for claim in claims:
            self._try(partial(self._clear, claim), "cleared the allocation of", claim)
        return claims

    def _clear(self, claim: Object) -> None:
        version = {"resourceVersion": claim["metadata"]["resourceVersion"]}
        cleared = self._patch(RESOURCE_CLAIMS, claim, {"metadata": version, "status": {"allocation": None}}, "status")
        kept = [it for it in claim["metadata"].get("finalizers") or [] if it != FINALIZER]
        version = {"resourceVersion": cleared["metadata"]["resourceVersion"]}
        self._patch(RESOURCE_CLAIMS, claim, {"metadata": {**version, "finalizers": kept}})

    def _patch(self, resource: Resource, obj: Object, patch: Object, subresource: str = "") -> Object:
        metadata = obj["metadata"]
        return self._api.patch(
            resource, metadata["name"], patch, namespace=metadata.get("namespace", ""), subresource=subresource
        )

    def _labelled(self, resource: Resource, selector: str) -> list[Object]:
        return list(self._api.list(resource, label_selector=selector).items)

    def _delete(self, resource: Resource, obj: Object) -> None:
        name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace", "")
        try:
            self._api.delete(resource, name, namespace)
        except NotFound:
            return
        print(f"deleted {resource.kind} {object_key(obj)}")

    def _try(self, write: Callable[[], object], done: str, obj: Object) -> None:
        """Write; what changed or vanished meanwhile, or is still protected, is looked at again."""
        try:
            write()
        except (NotFound, Conflict, Forbidden):
            return
        print(f"{done} {obj['kind']} {object_key(obj)}")

    def _wait(self, condition: str, remaining: Callable[[], list[Object]]) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while left := remaining():
            if time.monotonic() >= deadline:
                raise OperatorFault(f"not within {_PATIENCE_SECONDS:.0f} s: {condition}; still there: {_some(left)}")
            time.sleep(_PAUSE_SECONDS)


def _gates(pod: Object) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or []]


def _some(objects: list[Object], most: int = 3) -> str:
    return first_of([object_key(obj) for obj in objects], most)
