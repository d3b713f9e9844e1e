"""Admits pods and claims like the MutatingAdmissionPolicies in ``manifests/controller``, for an API without them."""

from collections.abc import Mapping

from driver.kube.api import Object
from driver.names import FINALIZER, Names


def gate_pod(pod: Object, names: Names, namespace_labels: Mapping[str, str]) -> Object:
    """The pod as admitted: with the driver's gate if it has claims or is in a gang, and its namespace permits it."""
    spec = pod["spec"]
    gates = spec.get("schedulingGates") or []
    opted_out = namespace_labels.get(f"{names.driver}/gate") == "off"
    waits = spec.get("resourceClaims") or names.gang in (pod["metadata"].get("labels") or {})
    if not waits or opted_out or spec.get("nodeName") or {"name": names.gate} in gates:
        return pod
    return {**pod, "spec": {**spec, "schedulingGates": [*gates, {"name": names.gate}]}}


def protect_claim(claim: Object, names: Names) -> Object:
    """The claim as admitted: with the finalizer of allocated claims if it requests one of the driver's classes."""
    requests = claim["spec"].get("devices", {}).get("requests") or []
    kinds = [one for request in requests for one in (request.get("exactly"), *request.get("firstAvailable", ())) if one]
    finalizers = claim["metadata"].get("finalizers") or []
    if FINALIZER in finalizers or not any(kind["deviceClassName"].endswith(f".{names.driver}") for kind in kinds):
        return claim
    return {**claim, "metadata": {**claim["metadata"], "finalizers": [*finalizers, FINALIZER]}}
