"""The arithmetic by which a search is cut short, held to trying everything."""

import itertools
from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from controller.allocation.search.bounds import fillable
from controller.allocation.search.flow import SINK, SOURCE, FlowNetwork

sizes = st.integers(1, 6)


@given(
    st.integers(0, 20), st.lists(st.tuples(st.frozensets(sizes, min_size=1, max_size=2), st.integers(1, 3)), max_size=3)
)
def test_what_fills_a_bin_best_is_the_largest_sum_that_fits(
    left: int, asked: Sequence[tuple[frozenset[int], int]]
) -> None:
    each = [sorted(some | {0}) for some, count in asked for _ in range(count)]
    assert fillable(left, asked) == max(total for one in itertools.product(*each) if (total := sum(one)) <= left)


def test_where_there_are_too_many_sums_all_of_the_bin_counts() -> None:
    asked = [(frozenset([1 << place]), 1) for place in range(12)]
    assert fillable(5_000, asked) == 5_000


wanting = st.dictionaries(
    st.sampled_from("abcd"), st.tuples(st.integers(1, 2), st.frozensets(st.integers(0, 4), max_size=4)), max_size=4
)


@given(wanting)
def test_all_flows_through_exactly_if_everybody_gets_devices_of_their_own(
    wanted: Mapping[str, tuple[int, frozenset[int]]],
) -> None:
    network = FlowNetwork()
    for name, (count, devices) in wanted.items():
        network.pipe(SOURCE, name, count)
        for device in devices:
            network.pipe(name, device, 1)
            network.limit(device, SINK, 1)
    choices = [itertools.combinations(sorted(devices), count) for count, devices in wanted.values()]
    chosen = (list(itertools.chain(*one)) for one in itertools.product(*choices))
    possible = any(len(set(one)) == len(one) for one in chosen)
    assert network.carries(sum(count for count, _ in wanted.values())) == possible
