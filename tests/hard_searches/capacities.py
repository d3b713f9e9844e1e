"""Partitions that consume counters, and shares that consume capacity."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from driver.model import Capacity, CounterConsumption, CounterSet, Device, Want
from driver.quantity import Quantity
from tests.hard_searches.builders import (
    DRIVER,
    LARGE,
    PART,
    HardSearch,
    claim,
    claims,
    devices,
    hard_search,
    match,
    spread,
)


def _parts(kind: str, number: int, placements: Mapping[str, Sequence[int]], slices: int) -> list[Device]:
    """Partitions of one card, each ``slices`` memory slices long; ``placements`` maps a kind to its first slices."""
    return [
        Device(
            f"{kind}-{number:03}-{name}-{start}",
            {f"{DRIVER}/kind": name, f"{DRIVER}/root": number},
            consumes=(
                CounterConsumption(
                    f"card-{number}", {f"m{i}": Quantity.whole(1) for i in range(start, start + slices)}
                ),
            ),
        )
        for name, starts in placements.items()
        for start in starts
    ]


def _cards(n: int) -> tuple[list[Device], list[CounterSet]]:
    cards = [
        part
        for number in range(n)
        for part in _parts("card", number, {"part": range(7)}, 1) + _parts("card", number, {"large": (0, 4)}, 4)
    ]
    return cards, [CounterSet(f"card-{i}", {f"m{j}": Quantity.whole(1) for j in range(8)}) for i in range(n)]


def counters(n: int) -> HardSearch:
    """n units of a counter, 2n partitions of one unit each, and a request for n + 1 of them (n at most 31)."""
    parts = [
        replace(one, consumes=(CounterConsumption("set", {"units": Quantity.whole(1)}),))
        for one in devices("part", 2 * n, {"index": lambda i: i})
    ]
    sets = [CounterSet("set", {"units": Quantity.whole(n)})]
    return hard_search(parts, [claim(replace(PART, count=n + 1))], sets)


def mig_mix(n: int) -> HardSearch:
    """n cards that 2n large partitions fill, and a request for one small partition more (n at most 15)."""
    cards, sets = _cards(n)
    return hard_search(cards, [claim(replace(LARGE, count=2 * n), PART)], sets)


def mig_mix_unlike(n: int) -> HardSearch:
    """As ``mig_mix``, with single requests and a constraint by which no two cards are equal."""
    cards, sets = _cards(n)
    return hard_search(cards, [claim(*[LARGE] * (2 * n), PART, constraints=[match("root", f"r{2 * n}")])], sets)


def mig_order(n: int) -> HardSearch:
    """Small partitions before large ones, which fit only if all small ones are on one card."""
    cards, sets = _cards(n)
    return hard_search(cards, [claim(replace(PART, count=4), replace(LARGE, count=2 * n - 1))], sets, satisfiable=True)


_PROFILES: Final = {
    "1g": (1, 1, range(7)),
    "2g": (2, 2, (0, 2, 4)),
    "3g": (3, 4, (0, 4)),
    "4g": (4, 4, (0,)),
    "7g": (7, 8, (0,)),
}
"""Per profile of an A100: compute slices, memory slices, and the memory slices at which it may start."""


def _profiled(n: int) -> tuple[list[Device], list[CounterSet]]:
    cards: list[Device] = []
    for number in range(n):
        for name, (compute, memory, starts) in _PROFILES.items():
            for start in starts:
                amounts = {f"memory-{i}": Quantity.whole(1) for i in range(start, start + memory)}
                drawn = CounterConsumption(f"card-{number}", {"compute": Quantity.whole(compute), **amounts})
                cards.append(Device(f"c{number:02}-{name}-{start}", {f"{DRIVER}/kind": name}, consumes=(drawn,)))
    each = {"compute": Quantity.whole(7), **{f"memory-{i}": Quantity.whole(1) for i in range(8)}}
    return cards, [CounterSet(f"card-{i}", each) for i in range(n)]


def mig_halves(n: int) -> HardSearch:
    """n halves that fit at both ends of a card, then n halves that fit only at the first, for n cards."""
    cards, sets = _profiled(n)
    return hard_search(cards, [claim(*[Want("3g")] * n, *[Want("4g")] * n)], sets, satisfiable=True)


def mig_halves_too_many(n: int) -> HardSearch:
    """As ``mig_halves``, with one more of the first kind."""
    cards, sets = _profiled(n)
    return hard_search(cards, [claim(*[Want("3g")] * (n + 1), *[Want("4g")] * n)], sets)


def mig_edges(n: int) -> HardSearch:
    """Three quarters per card, and one single more than fits beside them."""
    cards, sets = _profiled(n)
    return hard_search(
        cards, [claim(replace(Want("2g"), count=3 * n)), claim(replace(Want("1g"), count=n + 1), name="ones")], sets
    )


def mig_whole_last(n: int) -> HardSearch:
    """Seven singles, then all cards but one as a whole: the singles must be placed on one card."""
    cards, sets = _profiled(n)
    return hard_search(cards, [claim(*[Want("1g")] * 7, *[Want("7g")] * (n - 1))], sets, satisfiable=True)


def mig_whole_last_spoilt(n: int) -> HardSearch:
    """As ``mig_whole_last``, with one single more, which needs a second card."""
    cards, sets = _profiled(n)
    return hard_search(cards, [claim(*[Want("1g")] * 8, *[Want("7g")] * (n - 1))], sets)


def _shareable(count: int, room: Callable[[int], int]) -> list[Device]:
    return [
        replace(one, capacity={"memory": Capacity(Quantity.whole(room(number)))}, allow_multiple=True)
        for number, one in enumerate(devices("share", count))
    ]


def _share(amount: int) -> Want:
    return Want("share", capacity={"memory": Quantity.whole(amount)})


def shares(n: int) -> HardSearch:
    """n shares of 6 out of 10, one per card, and one share of 5 more."""
    return hard_search(_shareable(n, lambda _: 10), [*claims(n, _share(6)), claim(_share(5), name="last")])


def shares_unlike(n: int) -> HardSearch:
    """As ``shares``, on cards of different placements."""
    return hard_search(
        _shareable(n, lambda number: 1000 + number), [*claims(n, _share(600)), claim(_share(500), name="last")]
    )


def shares_mixed(n: int) -> HardSearch:
    """n shares each of three, five and seven tenths of a card, on too few cards."""
    asked = [*[_share(3)] * n, *[_share(5)] * n, *[_share(7)] * n]
    return hard_search(_shareable(n + (n - 1) // 2, lambda _: 10), spread(asked))


def shares_mixed_fit(n: int) -> HardSearch:
    """As ``shares_mixed``, with enough cards: each seven fits beside a three, and fives fit in pairs."""
    asked = [*[_share(3)] * n, *[_share(5)] * n, *[_share(7)] * n]
    return hard_search(_shareable(n + (n + 1) // 2, lambda _: 10), spread(asked), satisfiable=True)


def shares_many(n: int) -> HardSearch:
    """n + 1 shares of a quarter on eight cards."""
    return hard_search(_shareable(8, lambda _: 16), claims(n + 1, _share(4)), satisfiable=n + 1 <= 32)
