"""What is kept of expressions is bounded by their size, not only by their number: anybody can write long ones."""

import gc

from controller.allocation.selectors import MOST_CHARACTERS, CompiledSelectors, Filter
from tests.unit.controller.allocation.small_fleets import DRIVER, NODE, claim, device, fleet, pool, want

LONG = 9_000
"""Characters: kube-apiserver admits 10 KiB."""
CARD = pool(device("gpu-0", {"uuid": "GPU-0"}))


def long(number: int) -> str:
    """An expression that takes little work for its length."""
    return f'"{number:0{LONG}}" != device.attributes["{DRIVER}"].uuid'


def test_of_compiled_expressions_those_of_the_last_so_many_characters_are_kept() -> None:
    selectors = CompiledSelectors(DRIVER)
    wanted = [long(number) for number in range(3 * MOST_CHARACTERS // LONG)]
    for expression in wanted:
        selectors.filter((), (expression,))
    kept = [expression for expression in wanted if selectors.is_compiled(expression)]
    assert sum(map(len, kept)) <= MOST_CHARACTERS
    assert kept[-1] == wanted[-1]
    assert kept == wanted[-len(kept) :]


def test_claims_with_long_selectors_leave_little_behind() -> None:
    built = fleet(*CARD)
    asked = 6 * MOST_CHARACTERS // LONG
    for number in range(asked):
        assert isinstance(built.allocate(NODE, {}, [claim(want("gpu", long(number)), name=f"c{number}")]), tuple)
    gc.collect()
    characters = sum(found.characters for found in gc.get_objects() if isinstance(found, Filter))
    assert characters <= 2 * MOST_CHARACTERS < asked * LONG
