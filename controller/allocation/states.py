"""The state of a node as claims of one shape see it: nodes in equal states give the same answer, so one is asked."""

from collections.abc import Hashable

from controller.allocation.quick import Order
from controller.allocation.requests.shapes import Shape
from controller.allocation.stock.layout import bits
from controller.allocation.stock.matching import Matching
from controller.allocation.stock.pools import Pool


def state(order: Order, shape: Shape, matching: Matching) -> Hashable:
    """All of a node that decides whether, and how often, claims of the shape can be had there."""
    return tuple([_seen(pool, visible, shape, matching) for pool, visible in order])


def _seen(pool: Pool, visible: int, shape: Shape, matching: Matching) -> Hashable:
    if pool.problem:
        return None
    selected = []
    for steps in shape.steps:
        for step in steps:
            found = matching.selection(pool, step.paths, step.filter)
            selected.append((found.match & visible & pool.tolerated(step.want.tolerations), found.faulty & visible))
    columns = matching.columns
    values = tuple([columns.values(pool, attribute) for attribute in shape.attributes])
    used = tuple([_used(pool, index) for index in bits(pool.shared)])
    # The objects stand for themselves: pools alike share them, and they live as long as this is kept.
    lone = pool if pool.grouped else None
    return (
        tuple(selected),
        values,
        columns.capacity(pool),
        pool.layout,
        pool.busy,
        pool.held,
        used,
        tuple(pool.free),
        lone,
    )


def _used(pool: Pool, index: int) -> Hashable:
    use = pool.units[index].use
    return index, bool(use.exclusive), frozenset(use.consumed.items())
