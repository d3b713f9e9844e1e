"""What a Workload of Kueue says: which pods are to come, and whether it waits for our answer."""

from typing import Any

import pytest

from controller.allocation import Fleet
from controller.kueue.queued import Queued, queued_from
from controller.state import State
from driver.kube.api import KUEUE_ADMISSION_CHECKS, KUEUE_WORKLOADS, Object
from tests.unit.controller.filled_state import NAMES
from tests.unit.controller.workloads import admission_check, check_state, pod_set, workload


class Queues:
    """A state that follows Kueue's queues."""

    def __init__(self) -> None:
        self.state = State(Fleet(), NAMES)
        self.queued = Queued(NAMES.fits_now)
        self.state.follow(self.queued.kinds)
        self._version = 0

    def put(self, resource: Any, obj: Object) -> list[str]:
        """The Workloads that have to be looked at."""
        self._version += 1
        metadata = {"uid": obj["metadata"]["name"], **obj["metadata"], "resourceVersion": str(self._version)}
        return self.state.put(resource, {**obj, "metadata": metadata}).keys_of(KUEUE_WORKLOADS)

    def asking(self) -> list[str]:
        return [*self.queued.asking()]


@pytest.fixture
def queues() -> Queues:
    queues = Queues()
    queues.put(KUEUE_ADMISSION_CHECKS, admission_check())
    return queues


@pytest.mark.parametrize(
    ("obj", "asks"),
    [
        pytest.param(workload("w"), True, id="quota is reserved"),
        pytest.param(workload("w", Evicted="False"), True, id="it was evicted before"),
        pytest.param(workload("w", QuotaReserved="False"), False, id="no quota is reserved"),
        pytest.param(workload("w", Evicted="True"), False, id="its quota is about to be given back"),
        pytest.param(workload("w", Admitted="True"), False, id="it was admitted"),
        pytest.param(workload("w", Finished="True"), False, id="it has finished"),
        pytest.param(workload("w", checks=[check_state("Ready")]), False, id="it has an answer"),
        pytest.param(workload("w", checks=[check_state("Retry")]), False, id="it has another answer"),
        pytest.param(workload("w", checks=[check_state(name="other")]), False, id="another check is asked"),
        pytest.param(workload("w", checks=[]), False, id="no check is asked"),
    ],
)
def test_a_workload_asks_while_quota_is_reserved_and_our_check_is_pending(
    queues: Queues, obj: Object, asks: bool
) -> None:
    expected = ["default/w"] if asks else []
    assert queues.put(KUEUE_WORKLOADS, obj) == expected
    assert queues.asking() == expected


def test_a_workload_that_asks_before_its_check_is_known_is_looked_at_when_it_is() -> None:
    queues = Queues()
    assert queues.put(KUEUE_WORKLOADS, workload("w")) == []
    assert queues.put(KUEUE_ADMISSION_CHECKS, admission_check("other", "example.com/other")) == []
    assert queues.put(KUEUE_ADMISSION_CHECKS, admission_check()) == ["default/w"]
    assert queues.put(KUEUE_ADMISSION_CHECKS, admission_check()) == []


def test_what_is_deleted_or_finished_asks_no_more(queues: Queues) -> None:
    queues.put(KUEUE_WORKLOADS, workload("a"))
    queues.put(KUEUE_WORKLOADS, workload("b"))
    queues.put(KUEUE_WORKLOADS, workload("a", Finished="True"))
    queues.state.drop(KUEUE_WORKLOADS, "default/b")
    assert queues.asking() == []
    assert not queues.queued.workloads
    queues.put(KUEUE_WORKLOADS, workload("c"))
    queues.state.drop(KUEUE_ADMISSION_CHECKS, "fits")
    assert queues.asking() == []


def test_the_pods_are_as_many_as_quota_is_reserved_for() -> None:
    obj = workload("w", pod_set("a", 4), pod_set("b", 2))
    obj["status"]["admission"] = {"podSetAssignments": [{"name": "a", "count": 3}, {"name": "b"}]}
    assert [(one.name, one.count) for one in queued_from(obj).pod_sets] == [("a", 3), ("b", 2)]


@pytest.mark.parametrize(
    "pod_sets",
    [
        pytest.param([{"name": "main", "count": 1}], id="no template"),
        pytest.param([{**pod_set(), "count": "many"}], id="a count that is none"),
        pytest.param(["main"], id="a text"),
        pytest.param(7, id="a number"),
        pytest.param([pod_set(cpu="one")], id="a quantity that is none"),
    ],
)
def test_pod_sets_that_make_no_sense_are_a_problem_of_the_workload(queues: Queues, pod_sets: Any) -> None:
    obj = workload("w")
    obj["spec"]["podSets"] = pod_sets
    assert queues.put(KUEUE_WORKLOADS, obj) == ["default/w"]
    found = queues.queued.workloads["default/w"]
    assert (found.pod_sets, "spec.podSets cannot be decoded" in found.problem) == ((), True)


@pytest.mark.parametrize(
    "checks",
    [
        pytest.param([{"state": "Pending"}], id="no name"),
        pytest.param(["fits"], id="a text"),
        pytest.param([check_state(retryCount="often")], id="a number that is none"),
    ],
)
def test_a_status_that_makes_no_sense_is_reported_and_harms_no_other(queues: Queues, checks: Any) -> None:
    queues.put(KUEUE_WORKLOADS, workload("bad", checks=checks))
    assert queues.put(KUEUE_WORKLOADS, workload("good")) == ["default/good"]
    assert queues.asking() == ["default/good"]
    assert queues.state.unreadable.count("workloads") == 1


def test_without_the_setting_nothing_of_kueue_is_watched() -> None:
    assert not {KUEUE_WORKLOADS, KUEUE_ADMISSION_CHECKS} & set(State(Fleet(), NAMES).resources)
