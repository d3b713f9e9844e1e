"""What the API says about claims prepared here: whether they are still allocated, and whether pods still use them."""

from driver.kube.api import PODS, RESOURCE_CLAIMS, Api, ApiError, NotFound, Object
from driver.model import Claim
from driver.wire import claim_from
from kubeletplugin.prepare.claims import ClaimRef
from kubeletplugin.prepare.plan import ClaimPlan


def is_allocated(api: Api, plan: ClaimPlan) -> bool:
    """Whether the claim still exists and is still allocated any of the devices it was prepared with.

    Raises:
        ApiError: the API did not answer.
    """
    claim = _claim(api, plan.ref)
    if claim is None or claim.allocation is None:
        return False
    prepared = {result.device for result in plan.results}
    return any(result.device in prepared for result in claim.allocation.results)


def pods_that_forbid_unprepare(api: Api, ref: ClaimRef, node_name: str) -> tuple[str, ...]:
    """Names of the pods that run with the claim if they prove that the kubelet must not unprepare it; () otherwise.

    A kubelet unprepares a claim when the last pod that uses it has stopped, just before it reports that, so one pod may
    still look running. Two cannot, unless the first report is on its way. Kubernetes 1.36 is known to unprepare claims
    in use, when another pod with the same claim failed to start. If the API does not answer, nothing is proven: ().
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
