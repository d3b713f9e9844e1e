"""JobSets of NVIDIA's device plugin run unchanged: the real controller makes their pods, and these are adopted."""

from collections.abc import Iterator

import pytest

from tests.adoption_cases import claims_of
from tests.contract.adopted import bound, devices_of, told
from tests.contract.conftest import eventually
from tests.contract.jobset.world import NAMESPACE, JobSetCluster, jobs, jobset_cluster

pytestmark = [pytest.mark.jobset, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[JobSetCluster]:
    """A cluster with two nodes of four cards."""
    with jobset_cluster() as cluster:
        yield cluster


def test_pods_of_a_job_set_get_their_cards_and_it_stays_as_it_is(cluster: JobSetCluster) -> None:
    stored = cluster.add("plain", leader=jobs(1, 1), workers=jobs(2, 3))
    pods = eventually(lambda: bound(cluster.api, NAMESPACE, 3), 100)
    assert len({device for pod in pods for device in devices_of(cluster.api, pod)}) == 7
    asked = sorted(name for pod in pods for name in claims_of(pod).values())
    assert asked == ["lode-adopt.nvidia.n1", "lode-adopt.nvidia.n3", "lode-adopt.nvidia.n3"]
    assert cluster.job_set("plain")["spec"] == stored["spec"]
    cluster.remove("plain")


def test_a_job_set_with_the_label_of_a_gang_starts_as_a_whole(cluster: JobSetCluster) -> None:
    cluster.add_pod("other", 1)
    eventually(lambda: bound(cluster.api, NAMESPACE, 1), 60)
    cluster.add("gang", workers=jobs(2, 4, gang=True))
    # One of them would fit.
    gang = f"gang {NAMESPACE}/JobSet/gang: "
    eventually(lambda: [text.startswith(gang) for text in told(cluster.api, NAMESPACE)] == [True, True], 100)
    cluster.remove_pod("other")
    pods = eventually(lambda: bound(cluster.api, NAMESPACE, 2), 60)
    assert len({device for pod in pods for device in devices_of(cluster.api, pod)}) == 8
    cluster.remove("gang")


def test_members_that_are_made_when_the_leader_is_ready_get_their_cards(cluster: JobSetCluster) -> None:
    later = [{"name": "leader", "status": "Ready"}]
    cluster.add("steps", leader=jobs(1, 1, gang=True), workers=jobs(2, 3, gang=True, dependsOn=later))
    (leader,) = eventually(lambda: bound(cluster.api, NAMESPACE, 1), 100)
    assert cluster.pods("workers") == []
    cluster.make_ready(leader["metadata"]["name"])
    pods = eventually(lambda: bound(cluster.api, NAMESPACE, 3), 100)
    assert len(cluster.pods("workers")) == 2
    assert len({device for pod in pods for device in devices_of(cluster.api, pod)}) == 7
    cluster.remove("steps")
