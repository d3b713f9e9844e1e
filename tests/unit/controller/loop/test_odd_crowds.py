"""A crowd of objects with odd values in every place: what can be decoded is decided about, and others are served."""

import pytest

from driver.kube.api import DEVICE_TAINT_RULES, POD_DISRUPTION_BUDGETS, Object, Resource
from driver.kube.reflector import Upserted
from tests.fuzz.scene import CUSTOM
from tests.unit.controller.loop.world import ControllerWorld
from tests.unit.controller.state.read_objects import OBJECTS
from tests.unit.controller.state.test_odd_objects import KEPT
from tests.unit.odd_values import FEW, all_odd


class CrowdedWorld(ControllerWorld):
    """A world that follows every kind. Its objects come as they are, and the API knows nothing of them."""

    custom = (*CUSTOM, POD_DISRUPTION_BUDGETS)

    def __init__(self) -> None:
        super().__init__(nodes=1, cards=4, kueue={"enabled": True}, preemption={"enabled": True})
        self.settle(1)
        self._count = 0

    def arrives(self, resource: Resource, obj: Object) -> None:
        self._count += 1
        name = f"odd-{self._count}"
        metadata = {**obj["metadata"], "name": name, "uid": f"uid-{name}", "resourceVersion": str(10**6 + self._count)}
        self.controller.handle(self.controller.state.decode(Upserted(resource, {**obj, "metadata": metadata})))


@pytest.mark.parametrize(
    ("resource", "obj"),
    OBJECTS,
    ids=[f"{number}-{resource.plural}.{resource.group}" for number, (resource, _) in enumerate(OBJECTS)],
)
def test_a_pod_is_let_go_beside_a_crowd_of_odd_objects(resource: Resource, obj: Object) -> None:
    world = CrowdedWorld()
    for _, odd in all_odd(obj, KEPT, FEW):
        world.arrives(resource, odd)
    world.settle(1)
    world.add_claim("mine")
    world.add_pod("mine", "mine")
    world.settle(60)
    if resource == DEVICE_TAINT_RULES:
        assert world.controller.unready.startswith("DeviceTaintRule odd-"), "what it drains must not be handed out"
    else:
        assert world.gates("mine") == [], world.condition("mine")
