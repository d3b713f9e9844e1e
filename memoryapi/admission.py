"""What the MutatingAdmissionPolicy of ``manifests/controller`` does to a pod, for an API without policies."""

from collections.abc import Mapping

from driver.kube.api import Object
from driver.names import Names


def gate_pod(pod: Object, names: Names, namespace_labels: Mapping[str, str]) -> Object:
    """The pod as admitted: with the driver's gate if it has claims or is in a gang, and its namespace permits it."""
    spec = pod["spec"]
    gates = spec.get("schedulingGates") or []
    opted_out = namespace_labels.get(f"{names.driver}/gate") == "off"
    waits = spec.get("resourceClaims") or names.gang in (pod["metadata"].get("labels") or {})
    if not waits or opted_out or spec.get("nodeName") or {"name": names.gate} in gates:
        return pod
    return {**pod, "spec": {**spec, "schedulingGates": [*gates, {"name": names.gate}]}}
