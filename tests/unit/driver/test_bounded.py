"""A bounded cache never grows beyond its size and keeps what is newest."""

from hypothesis import given
from hypothesis import strategies as st

from driver.bounded import BoundedCache, SizedCache


@given(st.integers(1, 9), st.lists(st.integers(0, 20)))
def test_it_never_holds_more_than_its_size_and_always_what_was_set_last(most: int, keys: list[int]) -> None:
    cache: BoundedCache[int, str] = BoundedCache(most)
    for key in keys:
        known = key in cache
        before = list(cache)
        cache[key] = str(key)
        assert len(cache) <= most
        assert cache[key] == str(key)
        assert list(cache) == (before if known else [*before[len(before) + 1 - len(cache) :], key])


def test_setting_a_known_key_again_forgets_nothing() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache["a"], cache["b"] = 1, 2
    cache["a"] = 3
    assert cache == {"a": 3, "b": 2}
    cache["c"] = 4
    assert cache == {"b": 2, "c": 4}


@given(st.integers(1, 9), st.integers(1, 30), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20))))
def test_what_is_large_is_bounded_by_size_and_the_newest_is_always_kept(
    most: int, most_size: int, entries: list[tuple[int, int]]
) -> None:
    cache: SizedCache[int, int] = SizedCache(most, most_size, lambda key, value: key + value)
    for key, value in entries:
        cache[key] = value
        assert cache[key] == value
        assert len(cache) <= most
        assert cache.size == sum(key + value for key, value in cache.items())
        assert cache.size <= most_size or list(cache) == [key]
    cache.clear()
    assert (cache, cache.size) == ({}, 0)
