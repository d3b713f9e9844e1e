"""Namespaces where pods of another system are adopted, beside the whole controller, and what such pods got."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from driver.adoption import SOURCES
from driver.kube.api import NAMESPACES, PODS, RESOURCE_CLAIMS, Api, NotFound, Object, Resource
from testclusters.controlplane import ControlPlane
from tests.adoption_cases import claims_of
from tests.contract.conftest import SERVICE_ACCOUNTS, eventually


def adopt(plane: ControlPlane, api: Api, source: str) -> None:
    """Install the policies of a source, and wait until they are in force."""
    plane.kubectl("apply", "-f", f"manifests/adopt/{source}/policies.yaml")
    resource, namespace = next(iter(SOURCES[source].resources)), f"probe-{source}"
    metadata = {"name": namespace, "labels": {f"lode.dev/adopt-{source}": "on"}}
    api.create(NAMESPACES, {"metadata": metadata})
    eventually(lambda: api.get(SERVICE_ACCOUNTS, "default", namespace))

    def is_adopted() -> bool:
        container = {"name": "main", "image": "none", "resources": {"limits": {resource: 1}}}
        pod = {"metadata": {"name": "p", "namespace": namespace}, "spec": {"containers": [container]}}
        created = api.create(PODS, pod)
        api.delete(PODS, "p", namespace, grace_period_seconds=0)
        return bool(claims_of(created))

    eventually(is_adopted, 60)


@contextmanager
def adopting_namespace(api: Api, name: str, source: str, owners: Sequence[Resource] = ()) -> Iterator[str]:
    """A namespace that opts in. In the end its pods are removed, and before them their owners.

    Args:
        owners: the kinds whose objects make pods.
    """
    api.create(NAMESPACES, {"metadata": {"name": name, "labels": {f"lode.dev/adopt-{source}": "on"}}})
    eventually(lambda: api.get(SERVICE_ACCOUNTS, "default", name))
    yield name
    for resource in owners:
        for obj in api.list(resource, namespace=name).items:
            with suppress(NotFound):  # the garbage collector may be first
                api.delete(resource, obj["metadata"]["name"], name)
    eventually(lambda: no_pods(api, name), 60)
    eventually(lambda: not api.list(RESOURCE_CLAIMS, namespace=name).items, 60)


def no_pods(api: Api, namespace: str) -> bool:
    """Whether there are no pods; those that there are, are deleted."""
    pods = api.list(PODS, namespace=namespace).items
    for pod in pods:
        with suppress(NotFound):
            api.delete(PODS, pod["metadata"]["name"], namespace, grace_period_seconds=0)
    return not pods


def bound(api: Api, namespace: str, count: int) -> list[Object]:
    """The pods on nodes, once there are so many."""
    pods = [pod for pod in api.list(PODS, namespace=namespace).items if pod["spec"].get("nodeName")]
    return pods if len(pods) == count else []


def devices_of(api: Api, pod: Object) -> list[tuple[str, str]]:
    """The cards of a pod, with their nodes."""
    claims = [status["resourceClaimName"] for status in pod["status"]["resourceClaimStatuses"]]
    allocations = [
        api.get(RESOURCE_CLAIMS, name, pod["metadata"]["namespace"])["status"]["allocation"] for name in claims
    ]
    return [(it["pool"], it["device"]) for one in allocations for it in one["devices"]["results"]]


def told(api: Api, namespace: str) -> list[str]:
    """What the pods that wait are told; empty until each of them is."""
    pods = [pod for pod in api.list(PODS, namespace=namespace).items if not pod["spec"].get("nodeName")]
    messages = [
        condition["message"]
        for pod in pods
        for condition in pod["status"].get("conditions") or ()
        if condition["type"] == "lode.dev/Allocated" and condition["status"] == "False"
    ]
    return messages if len(messages) == len(pods) else []
