"""What is wrong with an allocation, by the objects that its author knew."""

from dataclasses import replace
from typing import Any

import pytest

from controller.placement import NodeFacts
from controller.state import Decoded
from controller.state.devices import ClassRecord
from controller.state.knownnodes import DecodedNode, Protection
from controller.writing import WriteSequence
from controller.writing.steps import PatchClaimStatus, Target
from driver.kube.api import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Forbidden,
    Resource,
)
from driver.kube.reflector import Reflector
from driver.model import (
    Allocation,
    Capacity,
    Claim,
    ClaimSpec,
    Constraint,
    Device,
    DeviceClass,
    DeviceId,
    NodeRequirement,
    NodeScope,
    NodeSelector,
    NodeSelectorTerm,
    Request,
    RequestPolicy,
    Result,
    Slice,
    Taint,
    TaintRule,
    Toleration,
    Want,
)
from driver.names import Names
from driver.quantity import Quantity
from memoryapi import MemoryApi
from tests.simulation.access import Access, AccessApi, Right
from tests.simulation.clock import VirtualClock
from tests.simulation.decision_checks import AllocationRules, DecisionChecks
from tests.simulation.event_log import EventLog

TEN = Quantity.parse("10")
FIVE = Quantity.parse("5")
POLICY = RequestPolicy(default=FIVE, valid_values=(FIVE, TEN))
DEVICES = (
    Device("gpu-0", {"lode.dev/model": "A"}),
    Device("gpu-1", {"lode.dev/model": "B"}),
    Device("share", {"lode.dev/model": "A"}, {"memory": Capacity(TEN, POLICY)}, allow_multiple=True),
)
TAINT = Taint("broken", "yes")
GPU = Want("gpu.lode.dev")
CLAIM = Claim("default", "c", "uid", ClaimSpec((Request("r", (GPU,)),)))


def device(name: str) -> DeviceId:
    return DeviceId("lode.dev", "n1/lode.dev", name)


def rules(*selectors: str, tainted: str = "gpu-9") -> AllocationRules:
    part = Slice("s", "lode.dev", "n1/lode.dev", 1, 1, NodeScope("n1"), DEVICES)
    rule = TaintRule("t", TAINT, selects=True, device=tainted)
    known: dict[Resource, dict[str, Any]] = {
        RESOURCE_SLICES: {"s": part},
        DEVICE_TAINT_RULES: {"t": rule},
        DEVICE_CLASSES: {"gpu.lode.dev": ClassRecord(DeviceClass("gpu.lode.dev", selectors), "")},
    }
    return AllocationRules(known)


def claim(want: Want, *constraints: Constraint) -> Claim:
    return replace(CLAIM, spec=ClaimSpec((Request("r", (want,)),), constraints))


def problems(checked: AllocationRules, wanted: Claim, *results: Result) -> str:
    return "\n".join(checked.problems(wanted, Allocation(results)))


def test_a_share_by_nvidias_name_is_one_whatever_its_class_selects() -> None:
    kinds = {"whole": "gpu", "part": "gpu-share"}
    devices = tuple(Device(name, {"lode.dev/kind": kind}) for name, kind in kinds.items())
    known: dict[Resource, dict[str, Any]] = {
        RESOURCE_SLICES: {"s": Slice("s", "lode.dev", "n1/lode.dev", 1, 1, NodeScope("n1"), devices)},
        DEVICE_TAINT_RULES: {},
        DEVICE_CLASSES: {"gpu.nvidia.com": ClassRecord(DeviceClass("gpu.nvidia.com", ("false",)), "")},
    }
    checked, wanted = AllocationRules(known, Names(nvidia_dra=True)), claim(Want("gpu.nvidia.com", capacity={"m": TEN}))
    assert "is no share" in problems(checked, wanted, Result("r", device("whole")))
    assert "is no share" not in problems(checked, wanted, Result("r", device("part")))


def test_the_right_device_has_no_problems() -> None:
    assert problems(rules('device.attributes["lode.dev"].model == "A"'), CLAIM, Result("r", device("gpu-0"))) == ""


@pytest.mark.parametrize(
    ("checked", "wanted", "results", "problem"),
    [
        (rules('device.attributes["lode.dev"].model == "A"'), CLAIM, [Result("r", device("gpu-1"))], "does not match"),
        (rules(), CLAIM, [Result("r", device("gpu-7"))], "is not published"),
        (rules(), claim(Want("other")), [Result("r", device("gpu-0"))], "there is no class other"),
        (rules(tainted="gpu-0"), CLAIM, [Result("r", device("gpu-0"))], "does not tolerate"),
        (rules(), claim(replace(GPU, count=2)), [Result("r", device("gpu-0"))], "wants 2 devices and gets 1"),
        (rules(), CLAIM, [Result("another", device("gpu-0"))], "requests"),
        (
            rules(),
            claim(replace(GPU, count=2), Constraint(match_attribute="lode.dev/model")),
            [Result("r", device("gpu-0")), Result("r", device("gpu-1"))],
            "as lode.dev/model",
        ),
        (
            rules(),
            claim(replace(GPU, capacity={"memory": TEN})),
            [Result("r", device("share"), "id", {"memory": FIVE})],
            "less than 10",
        ),
        (
            rules(),
            CLAIM,
            [Result("r", device("share"), "id", {"memory": Quantity.parse("7")})],
            "is not one of",
        ),
    ],
)
def test_a_wrong_allocation_is_described(
    checked: AllocationRules, wanted: Claim, results: list[Result], problem: str
) -> None:
    if wanted.spec.requests[0].name not in {result.request for result in results}:
        wanted = replace(wanted, spec=ClaimSpec((Request("another", (GPU,)), *wanted.spec.requests)))
    assert problem in problems(checked, wanted, *results)


def test_a_tolerated_taint_is_no_problem() -> None:
    tolerant = claim(replace(GPU, tolerations=(Toleration("broken", "Equal", "yes"),)))
    assert problems(rules(tainted="gpu-0"), tolerant, Result("r", device("gpu-0"))) == ""


@pytest.mark.parametrize(("kind", "wrong"), [(RESOURCE_SLICES, True), (NODES, False)])
def test_nothing_is_allocated_while_what_it_is_judged_by_cannot_be_read(kind: Resource, wrong: bool) -> None:
    clock = VirtualClock()
    access = Access(EventLog(clock))
    reflector = Reflector(AccessApi(MemoryApi(clock), access, "controller"), kind, lambda _: None)
    found: list[str] = []
    checks = DecisionChecks(found, lambda: [reflector])
    reflector.step()

    def allocate(uid: str) -> None:
        step = PatchClaimStatus(
            Target(RESOURCE_CLAIMS, "default/c", uid), {}, Allocation((Result("r", device("gpu-0")),))
        )
        checks.look(WriteSequence(("pod", "default/p"), (step,)))

    allocate("before")
    assert found == []
    access.take(Right("controller", kind, writes=False))
    with pytest.raises(Forbidden):
        reflector.step()
    allocate("after")
    assert found == (["default/c is to be allocated, though ['resourceslices'] cannot be read"] if wrong else [])


@pytest.mark.parametrize("closed", [False, True])
def test_nothing_is_allocated_on_a_node_that_is_known_to_be_closed(closed: bool) -> None:
    found: list[str] = []
    checks = DecisionChecks(found, list)
    facts = NodeFacts("n1", closing_conditions=("GpuMemWatch",) if closed else ())
    checks.tell(Decoded(NODES, "n1", "uid", 1, DecodedNode(facts, Protection())))
    here = NodeSelector((NodeSelectorTerm(fields=(NodeRequirement("metadata.name", "In", ("n1",)),)),))
    allocation = Allocation((Result("r", device("gpu-0")),), (), here)
    step = PatchClaimStatus(Target(RESOURCE_CLAIMS, "default/c", "uid"), {}, allocation)
    checks.look(WriteSequence(("pod", "default/p"), (step,)))
    expected = "default/c is to be allocated on n1, which is closed by ('GpuMemWatch',)"
    assert found == ([expected] if closed else [])
