"""Asks the API whether claims prepared here are still allocated, whether pods still use them, and in which containers.

Only the fields for these answers are decoded, so other content of a claim, such as invalid parameters, does no harm.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from driver.errors import SENSELESS
from driver.kube.api import NODES, PODS, RESOURCE_CLAIMS, Api, ApiError, NotFound, Object
from driver.model import DeviceId
from driver.wire.fields import text
from kubeletplugin.prepare.claims import ClaimRef
from kubeletplugin.prepare.plan import ClaimPlan

_VERSION: Final = re.compile(r"v1\.(\d{1,4})\.")
_FIRST_THAT_COUNTS: Final = 37
MOST_PODS: Final = 32
"""Pods of a claim whose containers are looked at."""


def is_allocated(api: Api, plan: ClaimPlan) -> bool:
    """Whether the claim still exists and is still allocated any of the devices it was prepared with.

    One whose allocation cannot be decoded may be, so it counts as allocated.

    Raises:
        ApiError: the API did not answer.
    """
    prepared = {result.device for result in plan.results}
    try:
        allocation = _status(api, plan.ref).get("allocation") or {}
        results = (allocation.get("devices") or {}).get("results") or ()
        return any(DeviceId(result["driver"], result["pool"], result["device"]) in prepared for result in results)
    except SENSELESS:
        return True


def pods_that_forbid_unprepare(
    api: Api, ref: ClaimRef, node_name: str, in_time: Callable[[], bool] = lambda: True
) -> tuple[str, ...]:
    """Names of running pods that prove that the kubelet must not unprepare the claim; () if there is no proof.

    A kubelet of Kubernetes 1.36 is known to unprepare a claim in use when another pod with the same claim failed to
    start. So this matters only there, and only for a claim that several pods reserve. A pod runs if it is not being
    ended and one of its containers runs. A kubelet unprepares a claim after the containers of its last pod have
    stopped, and before it reports that the pod has ended. It reports the stopped containers, or why it stops them,
    earlier than that. A report that is still on its way delays an unprepare until the kubelet tries again.

    Args:
        in_time: whether to go on looking. If not, or if the API does not answer, or what it answers cannot be
            decoded, the result is ().
    """
    try:
        if _counts_pods(api, node_name) or not in_time():
            return ()
        users = _status(api, ref).get("reservedFor") or ()
        pods = [user for user in users if not user.get("apiGroup") and user["resource"] == "pods"]
        # One pod cannot be mistaken for another. Without this, an API that is away would keep every pod from ending
        # (test_a_silent_api_never_keeps_a_pod_from_ending).
        if len(pods) < 2:
            return ()
        running = []
        for pod in pods:
            # The kubelet waits for the answer while the pod is to end; without proof in time, it is believed.
            if not in_time():
                return ()
            if _runs(_pod(api, ref.namespace, pod["name"]), pod["uid"], node_name):
                running.append(pod["name"])
    except (ApiError, *SENSELESS):
        return ()
    return tuple(running)


def containers_with(api: Api, ref: ClaimRef) -> Iterator[tuple[str, frozenset[str]]]:
    """The containers that have the claim, by their names, each with the names of all claims that it has.

    Raises:
        ApiError: the API did not answer.
    """
    for user in _users(api, ref)[:MOST_PODS]:
        try:
            pod = api.get(PODS, user, ref.namespace)
            yield from ((name, claims) for name, claims in _claims_of_containers(pod) if ref.name in claims)
        except (NotFound, *SENSELESS):
            continue


def _counts_pods(api: Api, node_name: str) -> bool:
    """Whether the node's kubelet unprepares a claim only for a pod that it counts among the claim's, so the last one.

    It has done so since 1.37 (``hasPodReference`` in its DRA manager). One whose version cannot be read may be older.
    """
    try:
        info = (api.get(NODES, node_name).get("status") or {}).get("nodeInfo") or {}
        version = _VERSION.match(text(info.get("kubeletVersion")))
    except (ApiError, *SENSELESS):
        return False
    return version is not None and int(version[1]) >= _FIRST_THAT_COUNTS


def _users(api: Api, ref: ClaimRef) -> list[str]:
    try:
        users = (api.get(RESOURCE_CLAIMS, ref.name, ref.namespace).get("status") or {}).get("reservedFor") or ()
        return [str(user["name"]) for user in users if not user.get("apiGroup") and user["resource"] == "pods"]
    except (NotFound, *SENSELESS):
        return []


def _claims_of_containers(pod: Object) -> Iterator[tuple[str, frozenset[str]]]:
    spec, status = pod["spec"], pod.get("status") or {}
    created = {entry["name"]: entry.get("resourceClaimName") for entry in status.get("resourceClaimStatuses") or ()}
    names: Mapping[str, str | None] = {
        entry["name"]: entry.get("resourceClaimName") or created.get(entry["name"])
        for entry in spec.get("resourceClaims") or ()
    }
    extended = status.get("extendedResourceClaimStatus") or {}
    by_request = {mapping["containerName"] for mapping in extended.get("requestMappings") or ()}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        entries = (container.get("resources") or {}).get("claims") or ()
        found = {names.get(entry["name"]) for entry in entries}
        if container["name"] in by_request:
            found.add(extended.get("resourceClaimName"))
        yield container["name"], frozenset(name for name in found if name)


def _status(api: Api, ref: ClaimRef) -> Object:
    """The status of the claim; {} if it has none, or does not exist."""
    try:
        claim = api.get(RESOURCE_CLAIMS, ref.name, ref.namespace)
    except NotFound:
        return {}
    return (claim.get("status") or {}) if claim["metadata"].get("uid") == ref.uid else {}


def _pod(api: Api, namespace: str, name: str) -> Object | None:
    try:
        return api.get(PODS, name, namespace)
    except NotFound:
        return None


def _runs(pod: Object | None, uid: str, node_name: str) -> bool:
    """Whether a container of the pod runs on the node; False if that cannot be decoded, because it proves nothing."""
    try:
        return _has_running_container(pod, uid, node_name)
    except SENSELESS:
        return False


def _has_running_container(pod: Object | None, uid: str, node_name: str) -> bool:
    if pod is None or pod["metadata"]["uid"] != uid or pod["metadata"].get("deletionTimestamp"):
        return False
    status = pod.get("status") or {}
    # The kubelet sets the reason before it stops the containers of a pod that it evicts or that ran for too long.
    if pod["spec"].get("nodeName") != node_name or status.get("phase") != "Running" or status.get("reason"):
        return False
    kinds = ("initContainerStatuses", "containerStatuses")
    return any("running" in (container.get("state") or {}) for kind in kinds for container in status.get(kind) or [])
