"""The closest set of cards is the one that trying all of them finds, and the engine allocates it."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from controller.allocation import Fleet
from controller.allocation.nodefit import closest as module
from controller.allocation.nodefit.closest import MOST_CARDS, STEP_LIMIT, Cards, closest, links_in
from controller.allocation.preferences import ranks_of
from controller.placement import Placed, place
from driver.model import AttributeValue, Constraint, Device, DeviceClass, Slice
from driver.names import NUMA_NODE, PCIE_ROOT, Names
from driver.parameters import PlacementPolicy
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile
from kubeletplugin.inventory import Fabric, build_inventory
from tests.simulation.files import MemoryFiles
from tests.unit.controller.allocation.nodefit.test_device_order import by
from tests.unit.controller.allocation.small_fleets import NODE, claim, device, fleet, hold, memory, names, pool, want

POLICIES: Sequence[PlacementPolicy] = ("firstFit", "binpack", "spread")


class Weight(NamedTuple):
    """A set of cards, so that the smallest is the best."""

    near: tuple[int, ...]
    left: tuple[int, ...]
    chosen: tuple[int, ...]


def weight(cards: Cards, chosen: tuple[int, ...], policy: PlacementPolicy) -> Weight:
    pairs = [cards.links[one][other] for one, other in itertools.combinations(chosen, 2)]
    kinds = [len({group[card] for card in chosen}) for group in cards.groups]
    others = [card for card in range(len(cards.links)) if card not in chosen]
    outside = sum(cards.links[one][other] for one in chosen for other in others)
    around = [sum(value in {group[card] for card in chosen} for value in group) for group in cards.groups]
    sign = {"firstFit": 0, "binpack": 1, "spread": -1}[policy]
    weakest = min(sum(cards.links[one][other] for other in chosen) for one in chosen)
    return Weight(
        (kinds[0], -min(pairs), -weakest, -sum(pairs), *kinds[1:]), tuple(sign * n for n in (outside, *around)), chosen
    )


def by_trying_all(cards: Cards, wanted: int, policy: PlacementPolicy) -> tuple[int, ...] | None:
    sets = [
        chosen
        for chosen in itertools.combinations(range(len(cards.links)), wanted)
        if not any(cards.apart[one] >> other & 1 for one in chosen for other in chosen)
    ]
    return min(sets, key=lambda chosen: weight(cards, chosen, policy)) if sets else None


@st.composite
def boards(draw: st.DrawFn, least: int = 2, most: int = 8) -> Cards:
    count = draw(st.integers(least, most))
    numbers = st.sampled_from(draw(st.sampled_from(((0, 1), (0, 1, 2), (0, 0, 1), (1, 2, 3, 4, 6)))))
    links = [[0] * count for _ in range(count)]
    for one, other in itertools.combinations(range(count), 2):
        links[one][other] = links[other][one] = draw(numbers)
    groups = draw(st.lists(st.lists(st.integers(0, 3), min_size=count, max_size=count), min_size=4, max_size=4))
    apart = [0] * count
    for one, other in draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=3)):
        apart[one] |= 1 << other
        apart[other] |= 1 << one
    return Cards(tuple(map(tuple, links)), tuple(map(tuple, groups)), tuple(apart))


@settings(max_examples=300)
@given(boards(), st.integers(2, 8), st.sampled_from(POLICIES))
def test_the_closest_set_is_the_one_that_trying_all_finds(cards: Cards, wanted: int, policy: PlacementPolicy) -> None:
    found = closest(cards, wanted, ranks_of(policy))
    assert (found and found.cards) == by_trying_all(cards, wanted, policy)


@settings(max_examples=15, deadline=None)
@given(boards(16, 16), st.integers(2, 16), st.sampled_from(POLICIES))
def test_the_closest_of_sixteen_is_found_if_the_search_ends(cards: Cards, wanted: int, policy: PlacementPolicy) -> None:
    found = closest(cards, wanted, ranks_of(policy))
    assert (found is None) == (by_trying_all(cards, wanted, policy) is None)
    if found and found.steps < STEP_LIMIT:
        assert found.cards == by_trying_all(cards, wanted, policy)


def test_a_search_without_steps_left_answers_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP_LIMIT", 5)
    found = closest.__wrapped__(EXAMPLE, 3, ranks_of("firstFit"))
    assert found == ((0, 1, 2), 1, 2, 4, 5)


EXAMPLE = Cards(((0, 1, 1, 2), (1, 0, 2, 1), (1, 2, 0, 2), (2, 1, 2, 0)), ((0,) * 4, (0, 0, 2, 2)), (0,) * 4)


def test_the_example_takes_the_steps_that_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    sets: list[tuple[int, ...]] = []
    closed: list[tuple[int, ...]] = []
    compare, is_closed = module._Search._compare, module._Search._is_closed

    def compared(search: Any, chosen: tuple[int, ...], *more: Any) -> None:
        sets.append(chosen)
        compare(search, chosen, *more)

    def bounded(search: Any, chosen: tuple[int, ...], *more: Any) -> bool:
        answer = is_closed(search, chosen, *more)
        closed.extend([chosen] if answer else [])
        return answer

    monkeypatch.setattr(module._Search, "_compare", compared)
    monkeypatch.setattr(module._Search, "_is_closed", bounded)
    assert closest.__wrapped__(EXAMPLE, 3, ranks_of("firstFit")) == ((0, 2, 3), 1, 3, 5, 12)
    assert (sets, closed) == ([(0, 1, 2), (0, 1, 3), (0, 2, 3)], [(1, 2)])


@pytest.mark.parametrize("text", ["", "1", "1:2,", "1:-2", ":", "1:2;3:4", "a:1"])
def test_a_value_that_names_no_links_says_none(text: str) -> None:
    assert not links_in(text)
    assert links_in("1:2,10:3") == {1: 2, 10: 3}


# The engine


def dgx(node: str = NODE) -> list[Slice]:
    cards = SimulatedHardware(load_profile("v100x8", MemoryFiles()), node).cards()
    offered = build_inventory(cards, Fabric(), ("whole", "share"), 10, Names()).devices
    return pool(*offered, node=node, sets={card.name: {"card": 1} for card in cards})


def use(built: Fleet, cards: Sequence[int]) -> None:
    for card in cards:
        hold(built, claim(want("gpu", f'device.attributes["lode.dev"].index == {card}'), name=f"u{card}"))


# cards in use, how many are asked for, and the cards chosen under binpack
OF_A_DGX: Sequence[tuple[str, Sequence[int], int, Sequence[int]]] = (
    ("two links and one switch", (), 2, (2, 3)),
    ("two links and one NUMA node", (2,), 2, (6, 7)),
    ("two links before one switch", (2, 6), 2, (0, 3)),
    ("one link, because nothing has two", (0, 2, 5, 7), 2, (1, 3)),
    ("each with each, with five links", (), 3, (0, 2, 3)),
    ("each with each, and most links", (), 4, (0, 1, 2, 3)),
    ("each with each on the other socket", (1,), 4, (4, 5, 6, 7)),
    ("a ring, where no four are linked each with each", (1, 5), 4, (0, 3, 4, 7)),
    ("six, of which each has four links", (), 6, (0, 2, 3, 4, 6, 7)),
)


@pytest.mark.parametrize(("case", "used", "count", "chosen"), OF_A_DGX, ids=[one[0] for one in OF_A_DGX])
def test_cards_of_a_dgx_have_the_most_links(case: str, used: Sequence[int], count: int, chosen: Sequence[int]) -> None:
    built = fleet(*dgx())
    use(built, used)
    answer = built.allocate(NODE, {}, [by("binpack", want(count=count))])
    assert names(answer) == [[f"gpu-{card}" for card in chosen]]


def test_a_set_that_the_constraints_do_not_allow_is_no_candidate() -> None:
    built = fleet(*dgx())
    use(built, (2, 6))
    linked = by("binpack", want(count=2))
    for constraints, chosen in (
        ((), ["gpu-0", "gpu-3"]),
        ((Constraint(match_attribute="lode.dev/pcieSwitch"),), ["gpu-0", "gpu-1"]),
        ((Constraint(distinct_attribute=NUMA_NODE),), ["gpu-1", "gpu-5"]),
    ):
        asked = replace(linked, spec=replace(linked.spec, constraints=constraints))
        assert names(built.allocate(NODE, {}, [asked])) == [chosen]


def test_shares_are_taken_of_linked_cards() -> None:
    built = fleet(*dgx())
    built.upsert_class(DeviceClass("share", ('device.attributes["lode.dev"].kind == "gpu-share"',)))
    part = want("share", count=2, capacity={"memory": "4Gi"})
    assert names(built.allocate(NODE, {}, [by("binpack", part)])) == [["gpu-2-share", "gpu-3-share"]]


def test_a_node_whose_free_cards_are_linked_comes_first() -> None:
    built = fleet(*dgx("a"), *dgx("b"))
    for name in ("a", "b"):
        built.ledger.upsert_node(name, {})
    for card in (1, 2, 3, 4, 6, 7):  # on the first node 0 and 5 are left, which are not linked
        answer = built.allocate("a", {}, [claim(want("gpu", f'device.attributes["lode.dev"].index == {card}'))])
        assert isinstance(answer, tuple)
        built.ledger.assume(f"u{card}", answer[0])
    found = place(built, [by("binpack", want(count=2))])
    assert isinstance(found, Placed)
    assert found.node == "b"


def test_a_malformed_attribute_is_no_links() -> None:
    cards = [device(f"g{at}", {"nvlinkDomain": "d", "index": at, "links": "everything"}) for at in range(3)]
    assert names(fleet(*pool(*cards)).allocate(NODE, {}, [by("binpack", want(count=2))])) == [["g0", "g1"]]


@pytest.mark.parametrize(("cards", "chosen"), [(MOST_CARDS, ["g0", "g2"]), (MOST_CARDS + 1, ["g0", "g1"])])
def test_among_more_cards_than_any_machine_has_links_do_not_count(cards: int, chosen: list[str]) -> None:
    linked = {0: "2:1", 2: "0:1"}
    published = [
        device(f"g{at}", {"nvlinkDomain": "d", "index": at, **({"links": linked[at]} if at in linked else {})})
        for at in range(cards)
    ]
    assert names(fleet(*pool(*published)).allocate(NODE, {}, [by("binpack", want(count=2))])) == [chosen]


@st.composite
def machines(draw: st.DrawFn) -> tuple[Cards, list[Device]]:
    """Cards of one node, as they are compared and as they are published."""
    cards = draw(boards(most=7))
    domains, switches, roots, numa = cards.groups
    links = tuple(
        tuple(number * (domains[one] == domains[other]) for other, number in enumerate(row))
        for one, row in enumerate(cards.links)
    )
    published = []
    for card, row in enumerate(links):
        text = ",".join(f"{other}:{number}" for other, number in enumerate(row) if number)
        known: dict[str, AttributeValue] = {
            "nvlinkDomain": f"d{domains[card]}",
            "index": card,
            "pcieSwitch": f"s{switches[card]}",
        }
        if text:
            known["links"] = text
        made = device(f"g{card}", known)
        where: dict[str, AttributeValue] = {PCIE_ROOT: f"r{roots[card]}", NUMA_NODE: numa[card]}
        published.append(replace(made, attributes={**made.attributes, **where}))
    return Cards(links, cards.groups, (0,) * len(links)), published


def left_of(cards: Cards, used: set[int], apart_by: int | None) -> tuple[Cards, list[int]]:
    """The free cards, of which those with different values of a kind cannot be together, and their numbers.

    In a domain of which none says links, two have one.
    """
    free = [card for card in range(len(cards.links)) if card not in used]
    domains = cards.groups[0]
    speaking = {domains[card] for card in free if any(cards.links[card])}

    def between(one: int, other: int) -> int:
        silent = one != other and domains[one] == domains[other] and domains[one] not in speaking
        return 1 if silent else cards.links[one][other]

    links = tuple(tuple(between(one, other) for other in free) for one in free)
    groups = tuple(tuple(group[card] for card in free) for group in cards.groups)
    kind = groups[apart_by] if apart_by is not None else (0,) * len(free)
    apart = tuple(sum(1 << at for at, value in enumerate(kind) if value != own) for own in kind)
    return Cards(links, groups, apart), free


@settings(max_examples=150, deadline=None)
@given(machines(), st.sets(st.integers(0, 6), max_size=3), st.integers(2, 6), st.sampled_from(POLICIES), st.booleans())
def test_a_request_gets_the_closest_of_the_free_cards(
    made: tuple[Cards, list[Device]], used: set[int], count: int, policy: PlacementPolicy, on_one_numa: bool
) -> None:
    cards, published = made
    free, numbers = left_of(cards, used, 3 if on_one_numa else None)
    assume(any(any(cards.links[card]) for card in numbers))
    built = fleet(*pool(*published))
    use(built, sorted(used & set(range(len(published)))))
    asked = by(policy, want(count=count), locality="preferred")
    constraints = (Constraint(match_attribute=NUMA_NODE),) if on_one_numa else ()
    answer = built.allocate(NODE, {}, [replace(asked, spec=replace(asked.spec, constraints=constraints))])
    best = by_trying_all(free, count, policy)
    assert (names(answer) if isinstance(answer, tuple) else None) == (best and [[f"g{numbers[card]}" for card in best]])


@settings(max_examples=100, deadline=None)
@given(machines(), st.sets(st.integers(0, 6), max_size=3), st.integers(2, 4), st.booleans())
def test_a_closer_set_is_named_exactly_if_there_is_one(
    made: tuple[Cards, list[Device]], used: set[int], count: int, on_one_numa: bool
) -> None:
    cards, published = made
    every, _ = left_of(cards, set(), 3 if on_one_numa else None)
    built = fleet(*pool(*published))
    use(built, sorted(used & set(range(len(published)))))
    asked = by("firstFit", want(count=count), locality="preferred")
    constraints = (Constraint(match_attribute=NUMA_NODE),) if on_one_numa else ()
    asked = replace(asked, spec=replace(asked.spec, constraints=constraints))
    answer = built.allocate(NODE, {}, [asked])
    assume(any(map(any, cards.links)) and isinstance(answer, tuple))
    assert isinstance(answer, tuple)
    built.ledger.assume(asked.uid, answer[0])
    [(_, told)] = built.chosen_cards(NODE, {}, [asked], answer)
    best = by_trying_all(every, count, "firstFit")
    assert best
    chosen = tuple(sorted(int(name[1:]) for name in told.devices))
    near, nearest = (weight(every, one, "firstFit").near for one in (chosen, best))
    assert list(told.measured.values()) == [abs(number) for number in near]
    assert told.closer == (tuple(f"g{card}" for card in best) if nearest < near else ())
    in_use = [card for card in best if card in used] if told.closer else []
    assert [(one.device, one.cause, one.holders) for one in told.missing] == [
        (f"g{card}", ("inUse", ""), (f"uid-u{card}",)) for card in in_use
    ]


def test_cards_come_with_cpus_of_their_numa_node() -> None:
    sockets = [
        replace(made, attributes={**made.attributes, NUMA_NODE: numa})
        for numa in range(2)
        for made in [device(f"cpus-{numa}", {"kind": "cpu"}, shared=True, capacity={"cpu": CPUS})]
    ]
    built = fleet(*dgx(), *pool(*sockets, driver="dra.cpu"))
    built.upsert_class(DeviceClass("cpu", ('device.attributes["lode.dev"].kind == "cpu"',)))
    use(built, (2, 6))
    cpus = want("cpu", capacity={"dra.cpu/cpu": "8"})
    asked = by("binpack", want(count=2), cpus)
    asked = replace(asked, spec=replace(asked.spec, constraints=(Constraint(match_attribute=NUMA_NODE),)))
    assert names(built.allocate(NODE, {}, [asked])) == [["gpu-0", "gpu-3", "cpus-0"]]
    hold(built, claim(want("cpu", capacity={"dra.cpu/cpu": "34"}), name="others"))
    assert names(built.allocate(NODE, {}, [asked])) == [["gpu-4", "gpu-7", "cpus-1"]]


CPUS = memory("40", "1", least="1", step="1")
