"""What programs reach of the API while kinds and rights are missing."""

import pytest

from controller.state import DEVICE_TAINT_RULES_BETA
from driver.kube.api import DEVICE_TAINT_RULES, NODES, Forbidden, NotFound
from driver.kube.reflector import MISSING_LISTS, Delta, Missing, Reflector, Unreadable, Upserted
from tests.simulation.access import AccessApi, Right
from tests.unit.simulation.reached_api import ReachedApi

READ_NODES = Right("controller", NODES, writes=False)
RULE = {"metadata": {"name": "r"}, "spec": {"taint": {"key": "k", "effect": "NoSchedule"}}}


@pytest.fixture
def scene() -> ReachedApi:
    return ReachedApi()


def test_a_right_that_is_taken_away_is_missed_by_one_program_and_comes_back(scene: ReachedApi) -> None:
    scene.access.take(READ_NODES)
    with pytest.raises(Forbidden):
        scene.api.list(NODES)
    with pytest.raises(Forbidden):
        scene.api.get(NODES, "n1")
    with pytest.raises(Forbidden):
        scene.api.watch(NODES, resource_version="1")
    scene.api.create(NODES, {"metadata": {"name": "n1"}})
    assert AccessApi(scene.memory, scene.access, "plugin").get(NODES, "n1")
    assert scene.log.writes[NODES] == 1, "watches are tried again"
    scene.access.give_back(READ_NODES)
    assert len(scene.api.list(NODES).items) == 1
    assert scene.log.writes[NODES] == 2


def test_the_right_to_write_is_another_one(scene: ReachedApi) -> None:
    scene.access.take(Right("controller", NODES, writes=True))
    with pytest.raises(Forbidden):
        scene.api.create(NODES, {"metadata": {"name": "n1"}})
    assert scene.api.list(NODES).items == []


def test_a_kind_that_is_not_served_cannot_be_found(scene: ReachedApi) -> None:
    scene.access.serve(DEVICE_TAINT_RULES, served=False)
    with pytest.raises(NotFound):
        scene.api.list(DEVICE_TAINT_RULES)
    with pytest.raises(NotFound):
        scene.api.create(DEVICE_TAINT_RULES, RULE)
    scene.access.serve(DEVICE_TAINT_RULES, served=True)
    assert scene.api.list(DEVICE_TAINT_RULES).items == []


def test_who_watches_a_kind_in_another_version_sees_its_objects_while_that_is_served(scene: ReachedApi) -> None:
    seen: list[Delta] = []
    reflector = Reflector(scene.api, DEVICE_TAINT_RULES_BETA, seen.append, optional=True)
    reflector.step()
    assert seen == [Missing(DEVICE_TAINT_RULES_BETA)]
    scene.access.serve(DEVICE_TAINT_RULES_BETA, served=True)
    before = scene.log.writes[DEVICE_TAINT_RULES_BETA]
    reflector.step()
    scene.memory.create(DEVICE_TAINT_RULES, RULE)
    scene.log.count_write(DEVICE_TAINT_RULES)
    assert scene.log.writes[DEVICE_TAINT_RULES_BETA] == before + 1
    reflector.step()
    assert [type(delta) for delta in seen[-1:]] == [Upserted]
    scene.access.serve(DEVICE_TAINT_RULES_BETA, served=False)
    reflector.step()
    for _ in range(MISSING_LISTS - 1):
        with pytest.raises(NotFound):
            reflector.step()
    reflector.step()
    assert seen[-1:] == [Missing(DEVICE_TAINT_RULES_BETA)]
    scene.access.take(Right("controller", DEVICE_TAINT_RULES_BETA, writes=False))
    with pytest.raises(Forbidden):
        reflector.step()
    assert seen[-1:] == [Unreadable(DEVICE_TAINT_RULES_BETA)]
