"""Hard searches: allocations on one node, ``NODE``, for which a search without look-ahead takes exponential time.

Each function returns a hard search of a given size, which states whether its claims can be satisfied. The tests count
the steps that the allocator needs, the benchmark compares its time with that of the Kubernetes allocator, which
kube-scheduler ends after ten seconds for a node.
"""

from collections.abc import Callable, Mapping
from typing import Final

from tests.hard_searches.builders import DRIVER, NODE, HardSearch
from tests.hard_searches.capacities import (
    counters,
    mig_edges,
    mig_halves,
    mig_halves_too_many,
    mig_mix,
    mig_mix_unlike,
    mig_order,
    mig_whole_last,
    mig_whole_last_spoilt,
    shares,
    shares_many,
    shares_mixed,
    shares_mixed_fit,
    shares_unlike,
)
from tests.hard_searches.constraints import (
    distinct_values,
    distinct_within_match,
    gpu_nic_listed,
    gpu_nic_mixed,
    gpu_nic_mixed_short,
    gpu_nic_pairs,
    gpu_nic_pairs_crowded,
    gpu_nic_pairs_first,
    gpu_nic_pairs_spare,
    gpu_nic_pairs_uneven,
    match_last,
    match_nearly,
    match_nearly_singly,
    match_two_levels,
)
from tests.hard_searches.counts import (
    count_plus_one,
    first_available,
    gpus_plus_missing_nic,
    many_claims,
    many_requests,
    many_unlike,
)

__all__ = ["DRIVER", "HARD_SEARCHES", "NODE", "HardSearch"]

HARD_SEARCHES: Final[Mapping[str, tuple[Callable[[int], HardSearch], tuple[int, ...]]]] = {
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
    "gpu_nic_pairs_uneven": (gpu_nic_pairs_uneven, (4, 6, 8)),
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
"""The hard searches by name, each with the sizes that the tests use."""
