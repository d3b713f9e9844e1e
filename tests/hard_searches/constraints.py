"""Claims with constraints: devices that must have the same value of an attribute, or different values."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from driver.model import AttributeValue
from tests.hard_searches.builders import GPU, NIC, HardSearch, claim, devices, distinct, hard_search, match


def _pairs(
    n: int, roots: Mapping[str, Callable[[int], AttributeValue]], *, satisfiable: bool, gpus: int = 0
) -> HardSearch:
    cards = devices("gpu", gpus or n, {"root": lambda i: i}) + devices("nic", n, roots)
    constraints = [match("root", f"r{2 * i}", f"r{2 * i + 1}") for i in range(min(n, 16))]
    first = claim(*[GPU, NIC] * min(n, 16), constraints=constraints, name="claim-0")
    more = [replace(first, name=f"claim-{i}", uid=f"uid-{i}") for i in range(1, max(1, n // 16))]
    return hard_search(cards, [first, *more], satisfiable=satisfiable)


def gpu_nic_pairs(n: int) -> HardSearch:
    """n pairs of card and NIC at one PCIe root each, but the last NIC is at another root (n at most 16, or 32)."""
    return _pairs(n, {"root": lambda i: i if i < n - 1 else 99}, satisfiable=False)


def gpu_nic_pairs_first(n: int) -> HardSearch:
    """As ``gpu_nic_pairs``, but the first NIC is at another root."""
    return _pairs(n, {"root": lambda i: i or 99}, satisfiable=False)


def gpu_nic_pairs_spare(n: int) -> HardSearch:
    """Pairs that fit: there is one more card, and the NICs are listed in reverse order."""
    return _pairs(n, {"root": lambda i: n - i}, satisfiable=True, gpus=n + 1)


def gpu_nic_pairs_crowded(n: int) -> HardSearch:
    """Enough cards and NICs for all pairs, but each root has two cards and a NIC, or one card and two NICs."""
    cards = devices("gpu", n, {"root": lambda i: i // 3 * 2 + (i % 3 == 2)})
    nics = devices("nic", n, {"root": lambda i: i // 3 * 2 + (i % 3 != 2)})
    constraints = [match("root", f"r{2 * i}", f"r{2 * i + 1}") for i in range(n)]
    return hard_search(cards + nics, [claim(*[GPU, NIC] * n, constraints=constraints)], satisfiable=n < 3)


def gpu_nic_pairs_uneven(n: int) -> HardSearch:
    """As ``gpu_nic_pairs_crowded``, one pair too many for n roots, of which no two have as many cards or NICs."""
    many = [2 + root // 2 for root in range(n)]
    cards = [root for root in range(n) for _ in range(many[root] if root % 2 else 1)]
    nics = [root for root in range(n) for _ in range(1 if root % 2 else many[root])]
    offered = devices("gpu", len(cards), {"root": cards.__getitem__}) + devices(
        "nic", len(nics), {"root": nics.__getitem__}
    )
    constraints = [match("root", f"r{2 * i}", f"r{2 * i + 1}") for i in range(n + 1)]
    return hard_search(offered, [claim(*[GPU, NIC] * (n + 1), constraints=constraints)])


def gpu_nic_listed(n: int) -> HardSearch:
    """Pairs by a list-valued attribute: each card lists two roots, and the last NIC lists one that no card has."""
    cards = devices("gpu", n, {"root": lambda i: (i, (i + 1) % n)})
    nics = devices("nic", n, {"root": lambda i: (i,) if i < n - 1 else (99,)})
    constraints = [match("root", f"r{2 * i}", f"r{2 * i + 1}") for i in range(n)]
    return hard_search(cards + nics, [claim(*[GPU, NIC] * n, constraints=constraints)])


def _groups(n: int, large: int) -> HardSearch:
    """n triples (two cards and a NIC) and n pairs. ``large`` roots have room for a triple, the others for a pair."""
    cards = [
        replace(device, name=f"{device.name}-{turn}")
        for turn in range(2)
        for device in devices("gpu", 2 * n if not turn else large, {"root": lambda i: i})
    ]
    nics = devices("nic", 2 * n, {"root": lambda i: i})
    pairs = [match("root", f"r{2 * i}", f"r{2 * i + 1}") for i in range(2 * n)]
    wants = [GPU, NIC] * n + [replace(GPU, count=2), NIC] * n
    return hard_search(cards + nics, [claim(*wants, constraints=pairs)], satisfiable=large >= n)


def gpu_nic_mixed(n: int) -> HardSearch:
    """n pairs, then n triples: the pairs must not use the n roots that have two cards (n at most 6)."""
    return _groups(n, n)


def gpu_nic_mixed_short(n: int) -> HardSearch:
    """As ``gpu_nic_mixed``, with one root too few for the triples."""
    return _groups(n, n - 1)


def match_nearly(n: int) -> HardSearch:
    """Eight groups of n equal devices, and a request for n + 1 of one group (n at most 31)."""
    return hard_search(
        devices("gpu", 8 * n, {"group": lambda i: i % 8}),
        [claim(replace(GPU, count=n + 1), constraints=[match("group")])],
    )


def match_nearly_singly(n: int) -> HardSearch:
    """As ``match_nearly``, with n + 1 requests for one device each."""
    return hard_search(
        devices("gpu", 8 * n, {"group": lambda i: i % 8}), [claim(*[GPU] * (n + 1), constraints=[match("group")])]
    )


def match_last(n: int) -> HardSearch:
    """Only the last of four groups is large enough."""
    cards = devices("gpu", 4 * n + 1, {"group": lambda i: min(i // n, 3)})
    return hard_search(cards, [claim(replace(GPU, count=n + 1), constraints=[match("group")])], satisfiable=True)


def match_two_levels(n: int) -> HardSearch:
    """Two requests, each for one NUMA node, both for one fabric; only the last fabric has two complete NUMA nodes."""
    cards = devices("gpu", 4 * n, {"numa": lambda i: i // n, "fabric": lambda i: i // n // 2 if i != 2 * n - 1 else 7})
    constraints = [match("numa", "r0"), match("numa", "r1"), match("fabric")]
    wanted = replace(GPU, count=n)
    return hard_search(cards, [claim(wanted, wanted, constraints=constraints)], satisfiable=True)


def distinct_values(n: int) -> HardSearch:
    """n values with four devices each, and a request for n + 1 devices with different values."""
    return hard_search(
        devices("gpu", 4 * n, {"value": lambda i: i % n}), [claim(*[GPU] * (n + 1), constraints=[distinct("value")])]
    )


def distinct_within_match(n: int) -> HardSearch:
    """n devices of one group with different values: the group has enough devices, but one value too few."""
    cards = devices("gpu", 4 * n, {"group": lambda i: i % 2, "value": lambda i: i % 2 * n + i // 2 % (n - 1)})
    return hard_search(cards, [claim(replace(GPU, count=n), constraints=[match("group"), distinct("value")])])
