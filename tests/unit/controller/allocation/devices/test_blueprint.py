"""What pools of equal hardware have in common exists once."""

from controller.allocation.devices.layout import PoolBlueprints
from controller.allocation.devices.pools import Pool
from driver.model import Slice
from tests.unit.controller.allocation.small_fleets import device, pool


def made(blueprints: PoolBlueprints, slices: list[Slice]) -> Pool:
    return Pool((slices[0].driver, slices[0].pool), slices, {}, blueprints)


def card(uuid: str, units: int = 2) -> list[Slice]:
    devices = [
        device(name, {"uuid": f"{uuid}-{name}"}, draws={"card.memory": drawn})
        for name, drawn in (("a", units), ("b", 1))
    ]
    return pool(*devices, sets={"card": {"memory": units}}, node=uuid)


def test_equal_pools_share_their_hardware_whatever_their_cards_are_called() -> None:
    blueprints = PoolBlueprints()
    one, other = made(blueprints, card("n1")), made(blueprints, card("n2"))
    for part in ("counters", "total", "layout", "compatibility_sets"):
        assert getattr(one, part) is getattr(other, part)
    assert one.devices[0].draws is other.devices[0].draws
    assert one.free is not other.free


def test_pools_that_differ_do_not() -> None:
    blueprints = PoolBlueprints()
    assert made(blueprints, card("n1")).total == (2 * 10**9,)
    assert made(blueprints, card("n1", units=4)).total == (4 * 10**9,)


def test_more_kinds_than_are_remembered_are_told_apart_too() -> None:
    blueprints = PoolBlueprints()
    for _ in range(2):
        for units in range(1, 100):
            found = made(blueprints, card("n1", units))
            assert found.total == (units * 10**9,)
            assert found.devices[0].draws == ((0, units * 10**9),)
