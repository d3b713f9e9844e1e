"""A cache key says all of a value: two values that differ anywhere have different keys."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.cache_key import cache_key
from driver.model import (
    ClaimSpec,
    Constraint,
    OpaqueConfig,
    Request,
    Toleration,
    Want,
)
from driver.quantity import Quantity

SPEC = ClaimSpec(
    requests=(
        Request(
            "gpu",
            (
                Want(
                    "gpu.lode.dev",
                    "large",
                    ("true",),
                    tolerations=(Toleration("key", seconds=1),),
                    capacity={"memory": Quantity.parse("1Gi")},
                    unsupported=("derivedAttributes",),
                ),
            ),
            prioritized=True,
        ),
    ),
    constraints=(Constraint(("gpu",), "lode.dev/ibCluster"),),
    config=(OpaqueConfig("lode.dev", {"kind": "PlacementConfig", "levels": [1, {"deep": True}]}, ("gpu",)),),
)


def variants(value: Any) -> Iterator[Any]:
    """The value with one thing changed, once for each thing in it."""
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            for other in variants(getattr(value, field.name)):
                yield replace(value, **{field.name: other})
    elif isinstance(value, tuple | list):
        yield type(value)([*value, "more"])
        for index, part in enumerate(value):
            yield from (type(value)([*value[:index], other, *value[index + 1 :]]) for other in variants(part))
    elif isinstance(value, dict):
        yield {**value, "more": "more"}
        for name, part in value.items():
            yield from ({**value, name: other} for other in variants(part))
    else:
        yield from {bool: (not value, 2), int: (3, 4.5), str: (f"{value} ",)}.get(type(value), (1,))


def test_every_part_of_a_claim_spec_is_part_of_its_key() -> None:
    changed = list(variants(SPEC))
    assert len(changed) > 40
    assert len({cache_key(spec) for spec in (SPEC, *changed)}) == len(changed) + 1


def test_a_quantity_in_another_format_is_another_key_although_it_is_equal() -> None:
    binary, decimal = Quantity.parse("1Ki"), Quantity.parse("1024")
    assert binary == decimal
    assert cache_key(binary) != cache_key(decimal)


def test_what_cannot_be_a_key_is_refused() -> None:
    with pytest.raises(TypeError):
        cache_key({"set": {1}})


json = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=1), inner, max_size=3),
    max_leaves=8,
)


def exactly(one: Any, other: Any) -> bool:
    """Equal with types and order."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return [*one] == [*other] and all(exactly(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(exactly, one, other))
    return bool(one == other)


@given(json, json)
def test_keys_are_equal_exactly_if_values_are(one: Any, other: Any) -> None:
    assert (cache_key(one) == cache_key(other)) == exactly(one, other)
