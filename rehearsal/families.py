"""Families of inputs on which a search without look-ahead takes exponential time; each takes its size and nothing else.

One node, ``NODE``. Every family says whether its claims can be satisfied. The tests count the steps the allocator needs
for them, the benchmark its time beside upstream's.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from driver.model import (
    AttributeValue,
    Capacity,
    Claim,
    ClaimSpec,
    Constraint,
    CounterConsumption,
    CounterSet,
    Device,
    DeviceClass,
    NodeScope,
    Request,
    Slice,
    Want,
)  # fmt: skip
from driver.quantity import Quantity

NODE: Final = "node-0"
DRIVER: Final = "families.example.com"
_KINDS: Final = ("gpu", "nic", "share", "part", "large", "1g", "2g", "3g", "4g", "7g")
_PER_SLICE: Final = 64


@dataclass(frozen=True, slots=True)
class Family:
    """A node's slices, the classes, and a pod's claims."""

    slices: tuple[Slice, ...]
    classes: tuple[DeviceClass, ...]
    claims: tuple[Claim, ...]
    satisfiable: bool = False


def devices(kind: str, count: int, values: Mapping[str, Callable[[int], AttributeValue]] | None = None) -> list[Device]:
    """``count`` devices of a kind, each attribute computed from the device's number."""
    return [
        Device(
            f"{kind}-{number:03}",
            {f"{DRIVER}/kind": kind, **{f"{DRIVER}/{name}": of(number) for name, of in (values or {}).items()}},
        )
        for number in range(count)
    ]


def family(
    offered: Sequence[Device], claims: Iterable[Claim], sets: Iterable[CounterSet] = (), *, satisfiable: bool = False
) -> Family:
    """The devices as one complete pool of the node, in slices no larger than the API takes them."""
    chunks = [tuple(offered[start : start + _PER_SLICE]) for start in range(0, len(offered), _PER_SLICE)]
    every = list(sets)
    counters = [tuple(every[start : start + 8]) for start in range(0, len(every), 8)]
    scope, total = NodeScope(NODE), len(chunks) + len(counters)
    parts = [
        Slice(f"slice-{number:03}", DRIVER, NODE, 1, total, scope, chunk) for number, chunk in enumerate(chunks)
    ] + [
        Slice(f"counters-{number:03}", DRIVER, NODE, 1, total, scope, (), part) for number, part in enumerate(counters)
    ]
    classes = tuple(DeviceClass(kind, (f'device.attributes["{DRIVER}"].kind == "{kind}"',)) for kind in _KINDS)
    return Family(tuple(parts), classes, tuple(claims), satisfiable)


def claim(*wants: Want | tuple[Want, ...], constraints: Sequence[Constraint] = (), name: str = "claim") -> Claim:
    """A claim with requests r0, r1, ...; a tuple of wants is a prioritized list."""
    requests = tuple(
        Request(f"r{i}", tuple(replace(one, name=f"s{j}") for j, one in enumerate(want)), prioritized=True)
        if isinstance(want, tuple)
        else Request(f"r{i}", (want,))
        for i, want in enumerate(wants)
    )
    return Claim("default", name, f"uid-{name}", ClaimSpec(requests, tuple(constraints)))


def claims(count: int, *wants: Want | tuple[Want, ...]) -> list[Claim]:
    """Equal claims."""
    return [claim(*wants, name=f"claim-{number}") for number in range(count)]


def match(name: str, *requests: str) -> Constraint:
    """matchAttribute over the named requests, or all."""
    return Constraint(requests, f"{DRIVER}/{name}")


def distinct(name: str, *requests: str) -> Constraint:
    """distinctAttribute over the named requests, or all."""
    return Constraint(requests, "", f"{DRIVER}/{name}")


def _spread(wants: Sequence[Want | tuple[Want, ...]]) -> list[Claim]:
    """The wants over as many claims as their number of devices demands (a claim holds at most 32)."""
    return [
        claim(*wants[start : start + 32], name=f"claim-{number}")
        for number, start in enumerate(range(0, len(wants), 32))
    ]


GPU, NIC, PART, LARGE = Want("gpu"), Want("nic"), Want("part"), Want("large")


# One more than there are


def count_plus_one(n: int) -> Family:
    """One request of n + 1 out of n alike (n at most 31)."""
    return family(devices("gpu", n), [claim(replace(GPU, count=n + 1))])


def many_requests(n: int) -> Family:
    """n + 1 requests of one out of n alike."""
    return family(devices("gpu", n), _spread([GPU] * (n + 1)))


def many_unlike(n: int) -> Family:
    """The same, and each request rules one device out, so that no two are alike."""
    others = [Want("gpu", selectors=(f'device.attributes["{DRIVER}"].index != {i}',)) for i in range(n + 1)]
    return family(devices("gpu", n, {"index": lambda i: i}), _spread(others))


def gpus_plus_missing_nic(n: int) -> Family:
    """n cards of n, and then a card of a kind that is there, but wanted once too often."""
    return family(devices("gpu", n) + devices("nic", 1), _spread([*[GPU] * n, NIC, NIC]))


def many_claims(n: int) -> Family:
    """n + 1 claims of one out of n alike."""
    return family(devices("gpu", n), claims(n + 1, GPU))


def first_available(n: int) -> Family:
    """n + 1 requests with three alternatives each, all the same n devices."""
    return family(devices("gpu", n), _spread([(GPU, GPU, GPU)] * (n + 1)))


# Constraints


def _pairs(n: int, roots: Mapping[str, Callable[[int], AttributeValue]], *, satisfiable: bool, gpus: int = 0) -> Family:
    cards = devices("gpu", gpus or n, {"root": lambda i: i}) + devices("nic", n, roots)
    constraints = [match("root", f"r{2 * i}", f"r{2 * i + 1}") for i in range(min(n, 16))]
    first = claim(*[GPU, NIC] * min(n, 16), constraints=constraints, name="claim-0")
    more = [replace(first, name=f"claim-{i}", uid=f"uid-{i}") for i in range(1, max(1, n // 16))]
    return family(cards, [first, *more], satisfiable=satisfiable)


def gpu_nic_pairs(n: int) -> Family:
    """n pairs of card and NIC at one root each; the last NIC hangs at a root of its own (n at most 16, or 32)."""
    return _pairs(n, {"root": lambda i: i if i < n - 1 else 99}, satisfiable=False)


def gpu_nic_pairs_first(n: int) -> Family:
    """The same with the first NIC astray."""
    return _pairs(n, {"root": lambda i: i or 99}, satisfiable=False)


def gpu_nic_pairs_spare(n: int) -> Family:
    """Pairs that fit, for there is a card more, and the NICs are listed the other way round."""
    return _pairs(n, {"root": lambda i: n - i}, satisfiable=True, gpus=n + 1)


def gpu_nic_pairs_crowded(n: int) -> Family:
    """As many cards and NICs as pairs want, but two cards and a NIC, or one card and two NICs, at each root."""
    cards = devices("gpu", n, {"root": lambda i: i // 3 * 2 + (i % 3 == 2)})
    nics = devices("nic", n, {"root": lambda i: i // 3 * 2 + (i % 3 != 2)})
    constraints = [match("root", f"r{2 * i}", f"r{2 * i + 1}") for i in range(n)]
    return family(cards + nics, [claim(*[GPU, NIC] * n, constraints=constraints)], satisfiable=n < 3)


def gpu_nic_listed(n: int) -> Family:
    """Pairs by list-valued roots: each card is near two neighbours, the last NIC near none."""
    cards = devices("gpu", n, {"root": lambda i: (i, (i + 1) % n)})
    nics = devices("nic", n, {"root": lambda i: (i,) if i < n - 1 else (99,)})
    constraints = [match("root", f"r{2 * i}", f"r{2 * i + 1}") for i in range(n)]
    return family(cards + nics, [claim(*[GPU, NIC] * n, constraints=constraints)])


def _groups(n: int, large: int) -> Family:
    """n triples (two cards and a NIC) and n pairs, roots for ``large`` triples, the others for pairs."""
    cards = [
        replace(device, name=f"{device.name}-{turn}")
        for turn in range(2)
        for device in devices("gpu", 2 * n if not turn else large, {"root": lambda i: i})
    ]
    nics = devices("nic", 2 * n, {"root": lambda i: i})
    pairs = [match("root", f"r{2 * i}", f"r{2 * i + 1}") for i in range(2 * n)]
    wants = [GPU, NIC] * n + [replace(GPU, count=2), NIC] * n
    return family(cards + nics, [claim(*wants, constraints=pairs)], satisfiable=large >= n)


def gpu_nic_mixed(n: int) -> Family:
    """n pairs, then n triples; the pairs must leave the n roots that have two cards (n at most 6)."""
    return _groups(n, n)


def gpu_nic_mixed_short(n: int) -> Family:
    """The same with a root for triples too few."""
    return _groups(n, n - 1)


def match_nearly(n: int) -> Family:
    """Eight groups of n alike, and n + 1 of one group are wanted (n at most 31)."""
    return family(
        devices("gpu", 8 * n, {"group": lambda i: i % 8}),
        [claim(replace(GPU, count=n + 1), constraints=[match("group")])],
    )


def match_nearly_singly(n: int) -> Family:
    """The same by single requests."""
    return family(
        devices("gpu", 8 * n, {"group": lambda i: i % 8}), [claim(*[GPU] * (n + 1), constraints=[match("group")])]
    )


def match_last(n: int) -> Family:
    """Only the last of four groups is large enough."""
    cards = devices("gpu", 4 * n + 1, {"group": lambda i: min(i // n, 3)})
    return family(cards, [claim(replace(GPU, count=n + 1), constraints=[match("group")])], satisfiable=True)


def match_two_levels(n: int) -> Family:
    """Two requests, each of one NUMA node, all of one fabric; the fabric that has both comes last."""
    cards = devices("gpu", 4 * n, {"numa": lambda i: i // n, "fabric": lambda i: i // n // 2 if i != 2 * n - 1 else 7})
    constraints = [match("numa", "r0"), match("numa", "r1"), match("fabric")]
    wanted = replace(GPU, count=n)
    return family(cards, [claim(wanted, wanted, constraints=constraints)], satisfiable=True)


def distinct_values(n: int) -> Family:
    """n values with four devices each, and n + 1 devices that differ."""
    return family(
        devices("gpu", 4 * n, {"value": lambda i: i % n}), [claim(*[GPU] * (n + 1), constraints=[distinct("value")])]
    )


def distinct_within_match(n: int) -> Family:
    """n devices of one group that differ: the group has enough devices, but one value too few."""
    cards = devices("gpu", 4 * n, {"group": lambda i: i % 2, "value": lambda i: i % 2 * n + i // 2 % (n - 1)})
    return family(cards, [claim(replace(GPU, count=n), constraints=[match("group"), distinct("value")])])


# Amounts


def _parts(kind: str, number: int, sizes: Mapping[str, Sequence[int]], slices: int) -> list[Device]:
    """The partitions of one card: per kind, the first memory slice of each placement, ``sizes`` slices long."""
    return [
        Device(
            f"{kind}-{number:03}-{name}-{start}",
            {f"{DRIVER}/kind": name, f"{DRIVER}/root": number},
            consumes=(
                CounterConsumption(f"card-{number}", {f"m{i}": Quantity.of(1) for i in range(start, start + slices)}),
            ),
        )
        for name, starts in sizes.items()
        for start in starts
    ]


def _cards(n: int) -> tuple[list[Device], list[CounterSet]]:
    cards = [
        part
        for number in range(n)
        for part in _parts("card", number, {"part": range(7)}, 1) + _parts("card", number, {"large": (0, 4)}, 4)
    ]
    return cards, [CounterSet(f"card-{i}", {f"m{j}": Quantity.of(1) for j in range(8)}) for i in range(n)]


def counters(n: int) -> Family:
    """n units of a counter, 2n partitions of one unit, n + 1 wanted (n at most 31)."""
    parts = [
        replace(one, consumes=(CounterConsumption("set", {"units": Quantity.of(1)}),))
        for one in devices("part", 2 * n, {"index": lambda i: i})
    ]
    sets = [CounterSet("set", {"units": Quantity.of(n)})]
    return family(parts, [claim(replace(PART, count=n + 1))], sets)


def mig_mix(n: int) -> Family:
    """n cards filled by 2n large partitions, and a small one wanted besides (n at most 15)."""
    cards, sets = _cards(n)
    return family(cards, [claim(replace(LARGE, count=2 * n), PART)], sets)


def mig_mix_unlike(n: int) -> Family:
    """The same with requests one by one and no two cards alike, since a constraint could tell them apart."""
    cards, sets = _cards(n)
    return family(cards, [claim(*[LARGE] * (2 * n), PART, constraints=[match("root", f"r{2 * n}")])], sets)


def mig_order(n: int) -> Family:
    """Small partitions before large ones, which fit only where the small ones are kept together."""
    cards, sets = _cards(n)
    return family(cards, [claim(replace(PART, count=4), replace(LARGE, count=2 * n - 1))], sets, satisfiable=True)


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
                amounts = {f"memory-{i}": Quantity.of(1) for i in range(start, start + memory)}
                drawn = CounterConsumption(f"card-{number}", {"compute": Quantity.of(compute), **amounts})
                cards.append(Device(f"c{number:02}-{name}-{start}", {f"{DRIVER}/kind": name}, consumes=(drawn,)))
    each = {"compute": Quantity.of(7), **{f"memory-{i}": Quantity.of(1) for i in range(8)}}
    return cards, [CounterSet(f"card-{i}", each) for i in range(n)]


def mig_halves(n: int) -> Family:
    """A half that may go to either end of a card, then one that goes only to the first: n of each for n cards."""
    cards, sets = _profiled(n)
    return family(cards, [claim(*[Want("3g")] * n, *[Want("4g")] * n)], sets, satisfiable=True)


def mig_halves_too_many(n: int) -> Family:
    """The same, and one more of the first kind."""
    cards, sets = _profiled(n)
    return family(cards, [claim(*[Want("3g")] * (n + 1), *[Want("4g")] * n)], sets)


def mig_edges(n: int) -> Family:
    """Quarters three to a card, and singles in what they leave: one more than that."""
    cards, sets = _profiled(n)
    return family(
        cards, [claim(replace(Want("2g"), count=3 * n)), claim(replace(Want("1g"), count=n + 1), name="ones")], sets
    )


def mig_whole_last(n: int) -> Family:
    """Singles first, and then all cards but one whole: the singles must keep to one card."""
    cards, sets = _profiled(n)
    return family(cards, [claim(*[Want("1g")] * 7, *[Want("7g")] * (n - 1))], sets, satisfiable=True)


def mig_whole_last_spoilt(n: int) -> Family:
    """The same with one single more, that spoils a card."""
    cards, sets = _profiled(n)
    return family(cards, [claim(*[Want("1g")] * 8, *[Want("7g")] * (n - 1))], sets)


def _shareable(count: int, room: Callable[[int], int]) -> list[Device]:
    return [
        replace(one, capacity={"memory": Capacity(Quantity.of(room(number)))}, allow_multiple=True)
        for number, one in enumerate(devices("share", count))
    ]


def _share(amount: int) -> Want:
    return Want("share", capacity={"memory": Quantity.of(amount)})


def shares(n: int) -> Family:
    """n shares of 6 out of 10, one to a card, and one of 5 besides."""
    return family(_shareable(n, lambda _: 10), [*claims(n, _share(6)), claim(_share(5), name="last")])


def shares_unlike(n: int) -> Family:
    """The same on cards of which no two are alike."""
    return family(
        _shareable(n, lambda number: 1000 + number), [*claims(n, _share(600)), claim(_share(500), name="last")]
    )


def shares_mixed(n: int) -> Family:
    """Three, five and seven tenths of a card: n of each, and 3n of 5 make n + 1 cards too few."""
    asked = [*[_share(3)] * n, *[_share(5)] * n, *[_share(7)] * n]
    return family(_shareable(n + (n - 1) // 2, lambda _: 10), _spread(asked))


def shares_mixed_fit(n: int) -> Family:
    """The same with cards enough: sevens go with threes, fives in pairs."""
    asked = [*[_share(3)] * n, *[_share(5)] * n, *[_share(7)] * n]
    return family(_shareable(n + (n + 1) // 2, lambda _: 10), _spread(asked), satisfiable=True)


def shares_many(n: int) -> Family:
    """Shares of a quarter on eight cards, and more of them than quarters (n at least 32)."""
    return family(_shareable(8, lambda _: 16), claims(n + 1, _share(4)), satisfiable=n + 1 <= 32)


LISTED: Final[Mapping[str, tuple[Callable[[int], Family], tuple[int, ...]]]] = {
    "count_plus_one": (count_plus_one, (8, 22, 31)),
    "many_requests": (many_requests, (10, 32, 64)),
    "many_unlike": (many_unlike, (10, 32)),
    "gpus_plus_missing_nic": (gpus_plus_missing_nic, (10, 32)),
    "many_claims": (many_claims, (10, 32)),
    "first_available": (first_available, (7, 32)),
    "gpu_nic_pairs": (gpu_nic_pairs, (10, 16, 32)),
    "gpu_nic_pairs_first": (gpu_nic_pairs_first, (10, 16)),
    "gpu_nic_pairs_spare": (gpu_nic_pairs_spare, (10, 16)),
    "gpu_nic_pairs_crowded": (gpu_nic_pairs_crowded, (6, 9, 12, 15)),
    "gpu_nic_listed": (gpu_nic_listed, (8, 12, 16)),
    "gpu_nic_mixed": (gpu_nic_mixed, (3, 6)),
    "gpu_nic_mixed_short": (gpu_nic_mixed_short, (3, 6)),
    "match_nearly": (match_nearly, (15, 31)),
    "match_nearly_singly": (match_nearly_singly, (15, 31)),
    "match_last": (match_last, (16, 31)),
    "match_two_levels": (match_two_levels, (4, 16)),
    "distinct_values": (distinct_values, (6, 16, 31)),
    "distinct_within_match": (distinct_within_match, (6, 16)),
    "counters": (counters, (11, 31)),
    "mig_mix": (mig_mix, (10, 15)),
    "mig_mix_unlike": (mig_mix_unlike, (8, 15)),
    "mig_order": (mig_order, (4, 14)),
    "mig_halves": (mig_halves, (4, 8, 16)),
    "mig_halves_too_many": (mig_halves_too_many, (4, 8, 15)),
    "mig_edges": (mig_edges, (4, 8)),
    "mig_whole_last": (mig_whole_last, (4, 8, 16)),
    "mig_whole_last_spoilt": (mig_whole_last_spoilt, (4, 8, 16)),
    "shares": (shares, (7, 16)),
    "shares_mixed": (shares_mixed, (4, 8)),
    "shares_mixed_fit": (shares_mixed_fit, (4, 8)),
    "shares_unlike": (shares_unlike, (7, 16)),
    "shares_many": (shares_many, (31, 32)),
}
"""The families by name, each with the sizes that the tests decide."""
