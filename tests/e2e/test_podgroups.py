"""PodGroups on a real cluster: those of Volcano, and those of Kubernetes where the API serves them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.client import Client, Object, eventually
from tests.e2e.pods import pod, request, template
from tests.e2e.test_gangs import bound, fabrics
from tests.e2e.watcher import Watcher

VOLCANO = Path(__file__).parents[1] / "data" / "crds" / "volcano-podgroup.yaml"
GROUPS = "podgroups.scheduling.volcano.sh"


@pytest.fixture(scope="module")
def volcano(client: Client) -> Iterator[None]:
    """The API serves PodGroups of Volcano; the controller that runs already has to notice."""
    client.kubectl("apply", "-f", str(VOLCANO))
    client.kubectl("wait", "--for=condition=Established", f"crd/{GROUPS}", "--timeout=60s")
    yield
    client.kubectl("delete", "crd", GROUPS, "--ignore-not-found", "--timeout=60s", timeout=70)


@pytest.fixture(scope="module")
def kubernetes(client: Client) -> str:
    """The API version in which Kubernetes serves PodGroups; they are off by default (``kind up --pod-groups``)."""
    served = client.kubectl("api-versions").split()
    best = ("scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1alpha2")
    found = next((version for version in best if version in served), "")
    assert found, "the API serves no PodGroups; create the cluster with --pod-groups"
    return found


def in_one_fabric(name: str) -> Object:
    """A template for one share of a card; its gang, which the pods' group says, stays in one InfiniBand cluster."""
    parameters = {
        "apiVersion": "lode.dev/v1alpha1",
        "kind": "PlacementConfig",
        "gang": {},
        "topology": [{"attribute": "lode.dev/ibCluster"}],
    }
    config = [{"opaque": {"driver": "lode.dev", "parameters": parameters}}]
    return template(name, request("gpu-share", memory="64Mi"), config=config)


def of_volcano(name: str, group: str, task: str) -> Object:
    """A pod as Volcano's job controller makes it, for the default scheduler."""
    made = pod(name, group, labels={"volcano.sh/task-spec": task})
    made["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": group}
    return made


def one_fabric(client: Client, namespace: str) -> bool:
    found = set(fabrics(client, namespace).values())
    return len(found) == 1 and "" not in found


def test_a_pod_group_of_volcano_starts_with_enough_members_of_each_task(
    client: Client, namespace: str, watcher: Watcher, volcano: None
) -> None:
    group: Object = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train"},
        "spec": {"minMember": 3, "minTaskMember": {"master": 1, "worker": 2}},
    }
    workers = [of_volcano(f"worker-{number}", "train", "worker") for number in range(3)]
    client.create(namespace, in_one_fabric("train"), group, *workers)
    said = "3 of 3 members exist, 0 of 1 of task master"
    eventually("the missing task is named", lambda: said in client.messages(namespace, "worker-0"))
    assert not watcher.held(namespace)
    client.create(namespace, of_volcano("master-0", "train", "master"))
    eventually("all are bound", lambda: bound(client, namespace, 4))
    assert one_fabric(client, namespace)


def test_pods_of_a_pod_group_of_volcano_that_does_not_exist_wait_for_it(
    client: Client, namespace: str, watcher: Watcher, volcano: None
) -> None:
    pods = [of_volcano(f"worker-{number}", "late", "worker") for number in range(2)]
    client.create(namespace, in_one_fabric("late"), *pods)
    eventually("it is said why", lambda: "does not exist" in client.messages(namespace, "worker-0"))
    assert not watcher.held(namespace)
    group: Object = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "late"},
        "spec": {"minMember": 2},
    }
    client.create(namespace, group)
    eventually("all are bound", lambda: bound(client, namespace, 2))
    assert one_fabric(client, namespace)


@pytest.mark.pod_groups
@pytest.mark.parametrize("minimum", [2, 30])
def test_a_pod_group_of_kubernetes_starts_as_one(
    client: Client, namespace: str, watcher: Watcher, kubernetes: str, minimum: int
) -> None:
    """kube-scheduler schedules the group as one, once all gates are removed."""
    group: Object = {
        "apiVersion": kubernetes,
        "kind": "PodGroup",
        "metadata": {"name": "train"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}},
    }
    pods = [pod(f"train-{number}", "train", schedulingGroup={"podGroupName": "train"}) for number in range(4)]
    client.create(namespace, in_one_fabric("train"), group, *pods)
    if minimum > len(pods):
        said = f"4 of {minimum} members exist"
        eventually("it is said that members are missing", lambda: said in client.messages(namespace, "train-0"))
        assert not watcher.held(namespace)
    else:
        eventually("all are bound", lambda: bound(client, namespace, 4))
        assert one_fabric(client, namespace)
