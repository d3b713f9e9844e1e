"""Who goes is foreseen as the Eviction API decides; of equals, the last rank goes, the leader last."""

import pytest

from driver.kube.api import POD_DISRUPTION_BUDGETS, PODS
from tests.unit.controller.loop.preemptingworld import HIGH, PreemptingWorld
from tests.unit.controller.loop.test_gangs_preempting import COMPLETE, gang_of

INDEX, ROLE = "training.kubeflow.org/replica-index", "training.kubeflow.org/job-role"


def patch_status(world: PreemptingWorld, pod: str, phase: str, ready: bool) -> None:
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]}
    where = {"namespace": "default", "subresource": "status"}
    world.api.patch(PODS, pod, {"status": status}, patch_type="strategic", **where)


@pytest.mark.parametrize(
    ("phase", "ready", "policy", "healthy", "goes"),
    [
        ("Running", True, "AlwaysAllow", True, False),
        ("Pending", False, "IfHealthyBudget", False, True),
        ("Running", False, "AlwaysAllow", False, True),
        ("Running", False, "IfHealthyBudget", True, True),
        ("Running", False, "IfHealthyBudget", False, False),
    ],
)
def test_a_budget_counts_as_the_api_server_reads_it(
    phase: str, ready: bool, policy: str, healthy: bool, goes: bool
) -> None:
    world = PreemptingWorld(cards=1)
    world.running("low", labels={"app": "a"})
    world.budget(0, app="a")
    patch = {"spec": {"unhealthyPodEvictionPolicy": policy}}
    world.api.patch(POD_DISRUPTION_BUDGETS, "budget", patch, namespace="default")
    numbers = {"currentHealthy": 9 if healthy else 8, "observedGeneration": 2}
    status = {"status": numbers}
    world.api.patch(POD_DISRUPTION_BUDGETS, "budget", status, namespace="default", subresource="status")
    patch_status(world, "low", phase, ready)
    world.settle()
    world.wanting("important", HIGH)
    world.settle(5)
    assert world.evicted() == (["low"] if goes else [])


def test_a_static_pod_is_no_victim() -> None:
    world = PreemptingWorld(cards=1)
    world.running("low", annotations={"kubernetes.io/config.mirror": "checksum"})
    world.wanting("important", HIGH)
    world.settle(5)
    assert world.evicted() == []


def test_of_a_gang_of_one_age_the_last_rank_goes_first_and_the_leader_last() -> None:
    world = PreemptingWorld(nodes=4, cards=1)
    for rank in range(4):
        labels = {INDEX: str(rank), **({ROLE: "master"} if rank == 3 else {})}
        world.add_claim(f"job-{rank}", config=[gang_of("job", 1)])
        world.add_pod(f"job-{rank}", f"job-{rank}", labels=labels)
    world.settle(COMPLETE)
    for rank in range(4):
        world.bind(f"job-{rank}", world.devices(f"job-{rank}")[0].split("/")[0])
    order: list[str] = []
    for number in range(4):
        world.wanting(f"important-{number}", HIGH)
        world.settle(5)
        order += [name for name in world.evicted() if name not in order]
        world.end(order[-1])
    leader, *others = reversed(order)
    assert leader == "job-3"
    assert others == ["job-0", "job-1", "job-2"]
