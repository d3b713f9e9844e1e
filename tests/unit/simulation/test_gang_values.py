"""The checks find a gang whose members have other values than it asks for: as it starts, and when one comes later."""

from typing import Any

import pytest

from controller.allocation import Fleet
from controller.state import State
from controller.writing import WriteSequence
from controller.writing.steps import PatchClaimStatus, RemoveGate, Step, Target
from driver.kube.api import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Object
from driver.kube.reflector import Upserted
from driver.model import Allocation, DeviceId, Result
from tests.simulation.decision_checks import DecisionChecks
from tests.simulation.gang_values import meet
from tests.unit.controller.filled_state import GATE, NAMES, claim, pod, slice_on

ZERO, ONE, BOTH = frozenset({0}), frozenset({1}), frozenset({0, 1})


@pytest.mark.parametrize(
    ("each", "kinds"),
    [
        ([ZERO, ZERO], {"sameSet", "same"}),
        ([BOTH, BOTH], {"sameSet"}),
        ([ZERO, ONE], {"distinct"}),
        ([ZERO, BOTH], set()),
        ([BOTH], {"sameSet", "distinct"}),
        ([frozenset({""})], set()),
        ([], {"sameSet", "same", "distinct"}),
    ],
)
def test_members_have_values_in_common_or_apart(each: list[frozenset[Any]], kinds: set[str]) -> None:
    assert {kind for kind in ("sameSet", "same", "distinct") if meet(kind, each)} == kinds


def published(node: str, count: int = 2) -> tuple[Any, Object]:
    made = slice_on(node, count)
    for number, device in enumerate(made["spec"]["devices"]):
        device["attributes"]["rail"] = {"int": number}
    return RESOURCE_SLICES, made


def gang(mode: str, name: str = "g") -> list[Object]:
    parameters = {
        "apiVersion": "lode.dev/v1alpha1",
        "kind": "PlacementConfig",
        "gang": {"name": name, "minAvailable": 1, "constraints": [{"sameSet": "lode.dev/rail", "mode": mode}]},
    }
    return [{"opaque": {"driver": NAMES.driver, "parameters": parameters}}]


def found(step: Step, *objects: tuple[Any, Object]) -> list[str]:
    """What is wrong with a write of the pod ``p``, beside the pod ``q``, by a controller that knows these objects."""
    wrong: list[str] = []
    checks, state = DecisionChecks(wrong, list), State(Fleet(), NAMES)
    for number, (kind, obj) in enumerate((published("n1"), published("n2"), *objects), 1):
        metadata = {"uid": f"uid-{obj['metadata']['name']}", **obj["metadata"], "resourceVersion": str(number)}
        checks.tell(state.decode(Upserted(kind, {**obj, "metadata": metadata})))
    checks.look(WriteSequence(("pod", "default/p"), (step,)))
    return [one for one in wrong if "against sameSet" in one]


@pytest.mark.parametrize(
    ("other", "mode", "named", "wrong"),
    [
        ("n2/gpu-1", "required", "g", True),
        ("n2/gpu-0", "required", "g", False),
        ("n2/gpu-1", "preferred", "g", False),
        ("n2/gpu-1", "required", "another", False),
        ("n2/gpu-7", "required", "g", False),
    ],
)
@pytest.mark.parametrize("starts", [True, False])
def test_a_member_has_the_values_of_the_others(other: str, mode: str, named: str, wrong: bool, starts: bool) -> None:
    """Of a device that is not published nobody knows the values."""
    beside = [(RESOURCE_CLAIMS, claim("b", at=other, by=("q",), config=gang(mode, named)))]
    beside += [(PODS, pod("q", "b") if starts else pod("q", "b", gates=(), nodeName="n2"))]
    if starts:
        step: Step = RemoveGate(Target(PODS, "default/p", "uid-p"), GATE, 0)
        beside += [(RESOURCE_CLAIMS, claim("a", at="n1/gpu-0", by=("p",), config=gang(mode)))]
    else:
        held = Allocation((Result("r", DeviceId(NAMES.driver, NAMES.pool("n1"), "gpu-0")),))
        step = PatchClaimStatus(Target(RESOURCE_CLAIMS, "default/a", "uid-a"), {}, held)
        beside += [(RESOURCE_CLAIMS, claim("a", config=gang(mode)))]
    assert bool(found(step, *beside, (PODS, pod("p", "a")))) is wrong
