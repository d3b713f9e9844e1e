"""Devices that must agree in an attribute, or differ in one."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from driver.model import AttributeValue
from tests.hard_searches.parts import GPU, NIC, Family, claim, devices, distinct, family, match


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
