"""What the API says about claims that hold devices here: whether they still do, and whether pods still run on them."""

from typing import Literal

from driver.kube.api import PODS, RESOURCE_CLAIMS, Api, ApiError, NotFound, Object
from driver.model import Claim
from driver.wire import claim_from
from kubeletplugin.prepare.claims import ClaimRef
from kubeletplugin.prepare.plan import Plan

Standing = Literal["live", "gone"]


def standing(api: Api, plan: Plan) -> Standing:
    """Whether the claim still exists and is still allocated any of the devices it was prepared with.

    Raises:
        ApiError: the API gave no answer.
    """
    claim = _claim(api, plan.ref)
    if claim is None or claim.allocation is None:
        return "gone"
    held = {result.device for result in plan.results}
    return "live" if any(result.device in held for result in claim.allocation.results) else "gone"


def shared_by_running_pods(api: Api, ref: ClaimRef, node_name: str) -> tuple[str, ...]:
    """Names of the pods that keep the kubelet from being right when it gives the claim up; () if it may be right.

    A kubelet gives a claim up when the last pod that uses it has stopped, just before it reports that, so one pod may
    well look alive. Two cannot, unless the first report is on its way. Kubernetes 1.36 is known to give up claims that
    are in use, when another pod with the same claim failed to start. A silent API proves nothing: ().
    """
    try:
        claim = _claim(api, ref)
        if claim is None:
            return ()
        pods = [consumer for consumer in claim.reserved_for if (consumer.api_group, consumer.resource) == ("", "pods")]
        if len(pods) < 2:
            return ()
        running = [pod.name for pod in pods if _runs(_pod(api, ref.namespace, pod.name), pod.uid, node_name)]
    except ApiError:
        return ()
    return tuple(running) if len(running) > 1 else ()


def _claim(api: Api, ref: ClaimRef) -> Claim | None:
    try:
        claim = claim_from(api.get(RESOURCE_CLAIMS, ref.name, ref.namespace))
    except NotFound:
        return None
    return claim if claim.uid == ref.uid else None


def _pod(api: Api, namespace: str, name: str) -> Object | None:
    try:
        return api.get(PODS, name, namespace)
    except NotFound:
        return None


def _runs(pod: Object | None, uid: str, node_name: str) -> bool:
    return (
        pod is not None
        and pod["metadata"]["uid"] == uid
        and not pod["metadata"].get("deletionTimestamp")
        and pod["spec"].get("nodeName") == node_name
        and (pod.get("status") or {}).get("phase") == "Running"
    )
