"""The checks of decisions find a pod that is let go on a device which is tainted for it, or which nobody publishes."""

from typing import Any

import pytest

from controller.allocation import Fleet
from controller.state import State
from controller.writing import WriteSequence
from controller.writing.steps import AddFinalizer, PatchClaimStatus, ReadObject, RemoveGate, Step, Target
from driver.kube.api import DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Object
from driver.kube.reflector import Upserted
from driver.model import Allocation, DeviceId, Result
from tests.simulation.decision_checks import DecisionChecks
from tests.unit.controller.filled_state import GATE, NAMES, claim, pod, slice_on, taint_rule


def look(*objects: tuple[Any, Object], before: tuple[Step, ...] = ()) -> list[str]:
    """What is found wrong when the pod ``p`` is let go, after other steps, by a controller that knows these objects."""
    found: list[str] = []
    checks, state = DecisionChecks(found, list), State(Fleet(), NAMES)
    for number, (kind, obj) in enumerate(objects, 1):
        metadata = {"uid": f"uid-{obj['metadata']['name']}", **obj["metadata"], "resourceVersion": str(number)}
        checks.tell(state.decode(Upserted(kind, {**obj, "metadata": metadata})))
    gate = RemoveGate(Target(PODS, "default/p", "uid-p"), GATE, 0)
    sequence = WriteSequence(("pod", "default/p"), (*before, gate))
    checks.look(sequence)
    # What is repeated is not judged again.
    checks.look(sequence)
    return found


HELD = ((RESOURCE_CLAIMS, claim("a", at="n1/gpu-0", by=("p",))), (PODS, pod("p", "a")))


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([(RESOURCE_SLICES, slice_on("n1"))], ""),
        ([], "is not published"),
        ([(RESOURCE_SLICES, slice_on("n1", 0))], "is not published"),
        (
            [(RESOURCE_SLICES, slice_on("n1")), (DEVICE_TAINT_RULES, taint_rule("r", "n1", whole_pool=False))],
            "has the taint t:NoSchedule, which the claim does not tolerate",
        ),
    ],
)
def test_what_a_pod_holds_is_judged_when_it_is_let_go(others: list[tuple[Any, Object]], expected: str) -> None:
    found = look(*others, *HELD)
    assert found == ([f"default/p is let go: lode.dev/n1/lode.dev/gpu-0 {expected}"] if expected else [])


def test_what_the_same_decision_allocates_anew_is_judged_by_its_new_devices() -> None:
    """The claim's devices were taken back, and the watch has not told it yet."""
    rule = (DEVICE_TAINT_RULES, taint_rule("r", "n1", whole_pool=False))
    free = DeviceId("lode.dev", "n1/lode.dev", "gpu-1")
    allocation = Allocation((Result("r", free),))
    anew = PatchClaimStatus(Target(RESOURCE_CLAIMS, "default/a", "uid-a", "9"), {}, allocation)
    found = look((RESOURCE_SLICES, slice_on("n1", 2)), rule, *HELD, before=(anew,))
    assert not [one for one in found if "is let go" in one]


def test_the_rest_of_a_decision_is_not_judged_again() -> None:
    """An earlier step of the sequence has left another version of the claim, and the device is tainted since."""
    found: list[str] = []
    checks, state = DecisionChecks(found, list), State(Fleet(), NAMES)

    def tell(number: int, kind: Any, obj: Object) -> None:
        metadata = {"uid": f"uid-{obj['metadata']['name']}", **obj["metadata"], "resourceVersion": str(number)}
        checks.tell(state.decode(Upserted(kind, {**obj, "metadata": metadata})))

    for number, (kind, obj) in enumerate(((RESOURCE_SLICES, slice_on("n1")), *HELD), 1):
        tell(number, kind, obj)

    def claimed(version: str) -> Target:
        return Target(RESOURCE_CLAIMS, "default/a", "uid-a", version)

    gate = RemoveGate(Target(PODS, "default/p", "uid-p"), GATE, 0)
    checks.look(WriteSequence(("pod", "default/p"), (AddFinalizer(claimed("2"), ()), ReadObject(claimed("2")), gate)))
    tell(4, DEVICE_TAINT_RULES, taint_rule("r", "n1", whole_pool=False))
    checks.look(WriteSequence(("pod", "default/p"), (ReadObject(claimed("5")), gate)))
    assert found == []
    checks.look(WriteSequence(("pod", "default/p"), (AddFinalizer(claimed("5"), ()), ReadObject(claimed("5")), gate)))
    assert len(found) == 1, "another decision about the claim is"
