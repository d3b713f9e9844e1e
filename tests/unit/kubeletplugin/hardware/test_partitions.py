"""What can be cut from a card is what the vendors' tables say, in an order that wastes least."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement, permutations

import pytest

from kubeletplugin.hardware.partitions import (
    A100_40GB,
    A100_80GB,
    H100_80GB,
    MULTIPROCESSORS,
    Scheme,
)
from kubeletplugin.hardware.simulated.schemes import SCHEMES

ASCEND_310P, ASCEND_910B3 = SCHEMES["vnpu-310p"], SCHEMES["vnpu-910b3"]
MIG = (A100_40GB, A100_80GB, H100_80GB)


def first_fit(scheme: Scheme, asked: Iterable[str], *, reverse: bool = False) -> list[int] | None:
    """Where an allocator that takes the first device with free counters puts each profile; None if one finds none."""
    left = dict(scheme.counters)
    taken = set()
    slots = []
    offered = scheme.partitions[::-1] if reverse else scheme.partitions
    for profile in asked:
        for part in offered:
            free = part not in [p for p in scheme.partitions if (p.profile, p.slot) in taken]
            if part.profile == profile and free and all(left[c] >= n for c, n in part.draws.items()):
                break
        else:
            return None
        taken.add((part.profile, part.slot))
        slots.append(part.slot)
        for counter, amount in part.draws.items():
            left[counter] -= amount
    return slots


def profiles(scheme: Scheme) -> list[str]:
    return list(dict.fromkeys(part.profile for part in scheme.partitions))


@pytest.mark.parametrize("scheme", MIG, ids=lambda s: s.name)
def test_mig_placements_are_those_of_the_mig_user_guide(scheme: Scheme) -> None:
    starts = [sorted(p.slot for p in scheme.partitions if p.profile == name) for name in profiles(scheme)]
    assert starts == [[0, 1, 2, 3, 4, 5, 6], [0, 2, 4, 6], [0, 2, 4], [0, 4], [0], [0]]
    compute = [next(p.draws["compute-slices"] for p in scheme.partitions if p.profile == n) for n in profiles(scheme)]
    assert compute == [1, 1, 2, 3, 4, 7]


@pytest.mark.parametrize("scheme", MIG, ids=lambda s: s.name)
def test_a_mig_placement_draws_on_consecutive_memory_slices_from_its_start(scheme: Scheme) -> None:
    width = dict(zip(profiles(scheme), (1, 2, 2, 4, 4, 8), strict=True))
    for part in scheme.partitions:
        drawn = [name for name in part.draws if name not in ("compute-slices", MULTIPROCESSORS)]
        assert drawn == [f"memory-slice-{part.slot + i}" for i in range(width[part.profile])]


@pytest.mark.parametrize("scheme", MIG, ids=lambda s: s.name)
def test_as_many_instances_of_one_mig_profile_fit_as_nvidia_states(scheme: Scheme) -> None:
    for name, most in zip(profiles(scheme), (7, 4, 3, 2, 1, 1), strict=True):
        assert first_fit(scheme, [name] * most) is not None
        assert first_fit(scheme, [name] * (most + 1)) is None


def test_small_mig_profiles_leave_the_lower_half_for_the_largest_that_still_fits() -> None:
    assert first_fit(A100_40GB, ["1g.5gb", "1g.5gb", "1g.5gb", "4g.20gb"]) == [6, 5, 4, 0]
    assert first_fit(A100_40GB, ["2g.10gb", "1g.5gb", "4g.20gb"]) == [4, 6, 0]
    assert first_fit(A100_40GB, ["3g.20gb", "4g.20gb"]) == [4, 0]
    assert first_fit(A100_40GB, ["1g.10gb", "1g.5gb", "3g.20gb"]) == [6, 5, 0]


def mixes(scheme: Scheme, size: int) -> list[Sequence[str]]:
    return list(combinations_with_replacement(profiles(scheme), size))


def test_every_mix_that_fits_a_card_at_all_is_served_when_large_profiles_come_first() -> None:
    for size in range(1, 5):
        for mix in mixes(A100_40GB, size):
            if any(first_fit(A100_40GB, order) for order in set(permutations(mix))):
                assert first_fit(A100_40GB, reversed(mix)) is not None, mix


def test_placements_from_the_top_serve_more_sequences_than_placements_from_the_bottom() -> None:
    served = Counter[str]()
    for size in range(2, 5):
        for mix in mixes(A100_40GB, size):
            for order in set(permutations(mix)):
                served["top"] += first_fit(A100_40GB, order) is not None
                served["bottom"] += first_fit(A100_40GB, order, reverse=True) is not None
    assert served["top"] > served["bottom"]


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=lambda s: s.name)
def test_partitions_are_offered_smallest_first_and_names_are_dns_labels(scheme: Scheme) -> None:
    sizes = [part.memory_mib for part in scheme.partitions]
    assert sizes == sorted(sizes)
    for part in scheme.partitions:
        assert part.suffix.replace("-", "").isalnum()
        assert part.suffix == part.suffix.lower()
        assert set(part.draws) <= set(scheme.counters)
        assert 0 < part.cores <= 100


SLOTS_310P = {
    "vir01": 7,
    "vir02": 3,
    "vir02_1c": 4,
    "vir04": 1,
    "vir04_3c": 2,
    "vir04_3c_ndvpp": 2,
    "vir04_4c_dvpp": 1,
}


def test_a_310p_offers_as_many_slots_of_each_template_as_it_can_hold_of_that_template_alone() -> None:
    assert Counter(part.profile for part in ASCEND_310P.partitions) == SLOTS_310P
    assert len(ASCEND_310P.partitions) == 20


@pytest.mark.parametrize(
    ("mix", "fits"),
    [
        (["vir04", "vir04"], False),
        (["vir04", "vir04_3c"], True),
        (["vir02", "vir02", "vir02", "vir02_1c"], True),
        (["vir02"] * 4, False),
        (["vir01"] * 7, True),
        (["vir01"] * 8, False),
        (["vir01"] * 6 + ["vir02_1c"], True),
        (["vir01"] * 6 + ["vir02"], False),
        (["vir04_4c_dvpp", "vir04_3c_ndvpp"], True),
        (["vir04_4c_dvpp", "vir04_3c"], False),
        (["vir04_4c_dvpp", "vir01"], False),
    ],
)
def test_templates_share_a_310p_exactly_as_huawei_allows(mix: list[str], fits: bool) -> None:
    assert (first_fit(ASCEND_310P, mix) is not None) is fits


def test_a_910b3_holds_four_quarters_or_two_halves_or_one_half_and_two_quarters() -> None:
    assert Counter(p.profile for p in ASCEND_910B3.partitions) == {"vir05_1c_16g": 4, "vir10_3c_32g": 2}
    assert first_fit(ASCEND_910B3, ["vir10_3c_32g", "vir05_1c_16g", "vir05_1c_16g"]) is not None
    assert first_fit(ASCEND_910B3, ["vir10_3c_32g", "vir10_3c_32g", "vir05_1c_16g"]) is None
