"""What the admission policies of the controller-allocated flavour do, and ``userInfo``, around an API.

Writers of ``manifests/`` state these rules in CEL for a real kube-apiserver; here they are said once more for the
in-memory one, so that whole-system tests run under them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from driver.kube.api import (
    NAMESPACES,
    PODS,
    RESOURCE_CLAIMS,
    Api,
    Forbidden,
    NotFound,
    Object,
    Page,
    PatchType,
    Resource,
    WatchEvent,
)
from driver.names import Names

CONTROLLER = "lode-controller"
CLAIM_CONTROLLER = "resource-claim-controller"


def gated(pod: Object, names: Names, namespace_labels: Mapping[str, str]) -> Object:
    """The pod as admitted: with our gate if it has claims and its namespace has not opted out."""
    spec = pod["spec"]
    gates = spec.get("schedulingGates") or []
    opted_out = namespace_labels.get(f"{names.driver}/gate") == "off"
    if not spec.get("resourceClaims") or opted_out or spec.get("nodeName") or {"name": names.gate} in gates:
        return pod
    return {**pod, "spec": {**spec, "schedulingGates": [*gates, {"name": names.gate}]}}


def _devices(claim: Object | None) -> Any:
    return ((claim or {}).get("status") or {}).get("allocation")


class AdmittedApi:
    """An ``Api`` as one user sees it: pods are gated, and allocations of our devices are ours to make.

    Raises:
        Forbidden: from status writes that set, change or clear an allocation with a device of ours, unless the user is
            the controller (or, for clearing, the resource-claim-controller).
    """

    def __init__(self, api: Api, names: Names, user: str):
        self._api = api
        self._names = names
        self._user = user

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """Passed on."""
        return self._api.get(resource, name, namespace)

    def list(self, resource: Resource, **options: Any) -> Page:
        """Passed on."""
        return self._api.list(resource, **options)

    def watch(self, resource: Resource, **options: Any) -> Iterator[WatchEvent]:
        """Passed on."""
        return self._api.watch(resource, **options)

    def create(self, resource: Resource, obj: Object, namespace: str = "") -> Object:
        """Created; a pod with claims gets the gate."""
        if resource == PODS:
            home = namespace or obj["metadata"].get("namespace", "")
            obj = gated(obj, self._names, self._namespace_labels(home))
        return self._api.create(resource, obj, namespace)

    def update(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        """Replaced, if the policy allows it."""
        if resource == RESOURCE_CLAIMS and subresource == "status":
            metadata = obj["metadata"]
            self._check(metadata["name"], metadata.get("namespace", ""), _devices(obj))
        return self._api.update(resource, obj, subresource)

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        *,
        namespace: str = "",
        subresource: str = "",
        patch_type: PatchType = "merge",
        field_manager: str = "",
        force: bool = False,
    ) -> Object:
        """Patched, if the policy allows it."""
        status = patch.get("status") if isinstance(patch, dict) else None
        if resource == RESOURCE_CLAIMS and subresource == "status" and status and "allocation" in status:
            self._check(name, namespace, status["allocation"])
        return self._api.patch(
            resource,
            name,
            patch,
            namespace=namespace,
            subresource=subresource,
            patch_type=patch_type,
            field_manager=field_manager,
            force=force,
        )

    def delete(self, resource: Resource, name: str, namespace: str = "", **options: Any) -> None:
        """Passed on."""
        self._api.delete(resource, name, namespace, **options)

    def _namespace_labels(self, namespace: str) -> Mapping[str, str]:
        try:
            return self._api.get(NAMESPACES, namespace)["metadata"].get("labels") or {}
        except NotFound:
            return {}

    def _check(self, name: str, namespace: str, wanted: Any) -> None:
        current = _devices(self._api.get(RESOURCE_CLAIMS, name, namespace))
        if self._user == CONTROLLER or current == wanted or not (self._ours(current) or self._ours(wanted)):
            return
        if self._user == CLAIM_CONTROLLER and not wanted:
            return
        raise Forbidden(
            f"resourceclaims {namespace}/{name}: ValidatingAdmissionPolicy 'lode-single-allocator': "
            f"only the {self._names.driver} controller may allocate devices of {self._names.driver}; "
            f"user {self._user!r} may not",
            status=403,
            reason="Forbidden",
        )

    def _ours(self, allocation: Any) -> bool:
        results = ((allocation or {}).get("devices") or {}).get("results") or []
        return any(result["driver"] == self._names.driver for result in results)
