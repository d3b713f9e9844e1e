"""Nodes that NVSentinel and node-problem-detector have written to: whether pods are placed there.

NVSentinel (fault-quarantine, node-drainer, platform-connectors) cordons, perhaps taints, labels and annotates, and says
with conditions why. node-problem-detector says what it found with conditions; some of its configurations taint as well.
"""

from dataclasses import dataclass
from typing import Any

import pytest

from driver.kube.api import NODES, Object
from tests.unit.controller.loop.world import ControllerWorld

QUARANTINED = {
    "annotations": {
        "quarantineHealthEvent": '[{"agent":"gpu-health-monitor","checkName":"GpuXidError","isFatal":true}]',
        "quarantineHealthEventIsCordoned": "True",
    },
    "labels": {"k8saas.nvidia.com/cordon-by": "NVSentinel", "dgxc.nvidia.com/nvsentinel-state": "quarantined"},
}
UNCORDONED_BY_HAND = {"annotations": {"k8saas.nvidia.com/quarantinedNodeUncordonedManually": "true"}}
XID_TAINT = {"key": "nvidia.com/gpu-xid-error", "value": "true", "effect": "NoSchedule"}
NPD_TAINT = {"key": "node.example.com/kernel-deadlock", "effect": "NoExecute"}


@dataclass(frozen=True)
class Judged:
    """What was written to the node, and whether a pod is placed there."""

    name: str
    placed: bool
    spec: Any = None
    metadata: Any = None
    condition: str = ""
    status: str = "True"
    closing: tuple[str, ...] = ()
    tolerations: tuple[Any, ...] = ()


CASES = [
    Judged("healthy", True),
    Judged("NVSentinel cordons", False, {"unschedulable": True}, QUARANTINED, "GpuXidError"),
    Judged("NVSentinel taints only", False, {"taints": [XID_TAINT]}, QUARANTINED, "GpuXidError"),
    Judged("its taint is tolerated", True, {"taints": [XID_TAINT]}, tolerations=({"operator": "Exists"},)),
    Judged("a soft taint for a warning", True, {"taints": [{**XID_TAINT, "effect": "PreferNoSchedule"}]}),
    Judged("labels and annotations alone", True, None, QUARANTINED),
    Judged("uncordoned by hand, the condition stays", True, None, UNCORDONED_BY_HAND, "GpuMemWatch"),
    Judged("a condition that nobody named", True, condition="GpuMemWatch"),
    Judged("a condition that was named", False, condition="GpuMemWatch", closing=("GpuMemWatch",)),
    Judged("a condition that a pattern names", False, condition="SysLogsXIDError", closing=("Gpu*", "SysLogs*")),
    Judged("it has passed", True, condition="GpuMemWatch", status="False", closing=("Gpu*",)),
    Judged("it is not known", True, condition="GpuMemWatch", status="Unknown", closing=("Gpu*",)),
    Judged("no toleration helps", False, None, None, "GpuMemWatch", "True", ("Gpu*",), ({"operator": "Exists"},)),
    Judged("node-problem-detector finds a deadlock", True, condition="KernelDeadlock"),
    Judged("the same, named", False, condition="KernelDeadlock", closing=("KernelDeadlock", "ReadonlyFilesystem")),
    Judged("node-problem-detector taints", False, {"taints": [NPD_TAINT]}, condition="KernelDeadlock"),
    Judged("another condition of it", True, condition="FrequentKubeletRestart", closing=("KernelDeadlock",)),
]


def judge(world: ControllerWorld, case: Judged) -> None:
    node = world.api.get(NODES, "n1")
    changed: Object = {**node, "spec": {**node.get("spec", {}), **(case.spec or {})}}
    changed["metadata"] = {**node["metadata"], **(case.metadata or {})}
    world.api.update(NODES, changed)
    if case.condition:
        report(world, case.condition, case.status)


def report(world: ControllerWorld, condition: str, status: str) -> None:
    node = world.api.get(NODES, "n1")
    found = [one for one in node["status"]["conditions"] if one["type"] != condition]
    node["status"]["conditions"] = [*found, {"type": condition, "status": status, "reason": "r", "message": "m"}]
    world.api.update(NODES, node, "status")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_others_write_to_a_node_is_respected(case: Judged) -> None:
    world = ControllerWorld(closingNodeConditions=list(case.closing))
    judge(world, case)
    world.add_claim("c")
    world.add_pod("p", "c", tolerations=list(case.tolerations))
    world.settle()
    assert bool(world.devices("c")) == case.placed
    if not case.placed and case.closing:
        assert (
            f"the node has the condition {case.condition} (controller.closingNodeConditions)" in world.condition("p")[2]
        )


def test_a_pod_that_waits_is_placed_when_the_condition_has_passed_and_one_that_runs_stays() -> None:
    world = ControllerWorld(closingNodeConditions=["Gpu*"])
    world.add_claim("before")
    world.add_pod("early", "before")
    world.settle()
    report(world, "GpuMemWatch", "True")
    world.add_claim("c")
    world.add_pod("p", "c")
    world.settle()
    assert world.devices("before")
    assert not world.devices("c")
    report(world, "GpuMemWatch", "False")
    world.settle()
    assert world.devices("c")
