"""The fake garbage collector deletes objects whose owner was deleted."""

import pytest

from driver.kube.api import PODS
from memoryapi import JOBS
from tests.unit.simulation.kubernetes.fake_kubernetes import FakeKubernetes, kubernetes_with_a_job


@pytest.fixture
def rig() -> FakeKubernetes:
    return kubernetes_with_a_job()


def test_what_belongs_to_a_deleted_job_goes_with_it(rig: FakeKubernetes) -> None:
    rig.settle()
    rig.api.delete(JOBS, "j", "default")
    rig.settle()
    assert rig.api.list(PODS).items == []
    assert rig.claims() == []
