"""The admission policies of the flavour controller-allocated, and the user that they read from ``userInfo``.

``manifests/controller`` states these rules in CEL for a real kube-apiserver. They are repeated here so that tests of
the whole system run under them.
"""

from collections.abc import Callable, Mapping
from typing import Any

from driver.kube.api import NAMESPACES, PODS, RESOURCE_CLAIMS, Api, ApiCall, Forbidden, NotFound, Object
from driver.kube.decorator import WriteDecorator
from driver.names import Names
from memoryapi.admission import gate_pod, protect_claim

CONTROLLER = "lode-controller"
CLAIM_CONTROLLER = "resource-claim-controller"


class AdmissionApi(WriteDecorator):
    """The API as one user has it: pods get the gate, claims the finalizer, and one user allocates the driver's devices.

    Args:
        allocates: whether the policies count a driver's devices now; as the names say, by default.

    Raises:
        Forbidden: from status writes that set, change or clear an allocation with a device of the driver, unless the
            user is the controller (or, to clear it, the resource-claim-controller).
    """

    def __init__(self, api: Api, names: Names, user: str, allocates: Callable[[str], bool] | None = None):
        super().__init__(api)
        self._names = names
        self._user = user
        self._allocates = allocates or names.allocates

    def call(self, call: ApiCall) -> Any:
        """See ``Api``; a new pod with claims gets the gate, and a new claim for our classes the finalizer."""
        if call.verb == "create" and call.resource == PODS:
            call = call._replace(body=gate_pod(call.body, self._names, self._namespace_labels(call.namespace)))
        elif call.verb == "create" and call.resource == RESOURCE_CLAIMS:
            call = call._replace(body=protect_claim(call.body, self._names))
        return super().call(call)

    def before(self, call: ApiCall) -> None:
        """Refuse allocations that the policy refuses."""
        if call.resource != RESOURCE_CLAIMS or call.subresource != "status":
            return
        if call.verb == "update":
            self._check(call, _allocation(call.body))
        elif call.verb == "patch":
            status = call.body.get("status") if isinstance(call.body, dict) else None
            if status and "allocation" in status:
                self._check(call, status["allocation"])

    def _namespace_labels(self, namespace: str) -> Mapping[str, str]:
        try:
            return self._api.get(NAMESPACES, namespace)["metadata"].get("labels") or {}
        except NotFound:
            return {}

    def _check(self, call: ApiCall, wanted: Any) -> None:
        current = _allocation(self._api.get(RESOURCE_CLAIMS, call.name, call.namespace))
        unchanged = current == wanted
        if self._user == CONTROLLER or unchanged or not (self._is_ours(current) or self._is_ours(wanted)):
            return
        if self._user == CLAIM_CONTROLLER and not wanted:
            return
        raise Forbidden(
            f"resourceclaims {call.namespace}/{call.name}: ValidatingAdmissionPolicy 'lode-single-allocator': "
            f"only the {self._names.driver} controller may allocate devices of {self._names.driver}; "
            f"user {self._user!r} may not",
            status=403,
            reason="Forbidden",
        )

    def _is_ours(self, allocation: Any) -> bool:
        results = ((allocation or {}).get("devices") or {}).get("results") or []
        return any(self._allocates(result["driver"]) for result in results)


def _allocation(claim: Object) -> Any:
    return (claim.get("status") or {}).get("allocation")
