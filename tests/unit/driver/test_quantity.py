"""Quantities are exact, compare by value, and are written as the API writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.errors import InvalidInput
from driver.quantity import NANO, Quantity

CANONICAL = (
    ("0", "0"),
    ("80Gi", "80Gi"),
    ("1024Mi", "1Gi"),
    ("1536Mi", "1536Mi"),
    ("1000", "1k"),
    ("1024", "1024"),
    ("1000m", "1"),
    ("1500m", "1500m"),
    ("0.5", "500m"),
    ("1.5Gi", "1536Mi"),
    ("100E", "100E"),
    ("1e3", "1e3"),
    ("12e6", "12e6"),
    ("-2Gi", "-2Gi"),
    ("+3", "3"),
    ("1n", "1n"),
    ("1.", "1"),
    (".5", "500m"),
    ("1023", "1023"),
)
REFUSED = ("", "abc", "1gi", "1 Gi", "Gi", "1e", "--1", "1Gi ", "1e99999", "0x10", "١")


@pytest.mark.parametrize(("written", "canonical"), CANONICAL)
def test_a_quantity_is_written_back_as_the_api_writes_it(written: str, canonical: str) -> None:
    assert str(Quantity.parse(written)) == canonical


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_quantity_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidInput) as error:
        Quantity.parse(text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize("text", ["9" * 5000, f"{'0' * 5000}1Gi", f"1.{'0' * 5000}", f"1e{'1' * 5000}"])
def test_a_very_long_text_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidInput, match=f"at most 1000 characters: it has {len(text)}") as error:
        Quantity.parse(text)
    assert len(str(error.value)) < 200


def test_anything_finer_than_a_nano_is_rounded_up() -> None:
    assert Quantity.parse("1.0000000001").nanos == NANO + 1


def test_whole_units_are_rounded_away_from_zero() -> None:
    assert [Quantity.parse(text).value for text in ("1500m", "-1500m", "1", "0")] == [2, -2, 1, 0]


amounts = st.builds(
    lambda nanos, form: Quantity(nanos, form),
    st.integers(-(10**30), 10**30) | st.integers(-(10**6), 10**6).map(lambda units: units * NANO * 1024),
    st.sampled_from(["BinarySI", "DecimalSI", "DecimalExponent"]),
)


@given(amounts)
def test_text_keeps_the_value(amount: Quantity) -> None:
    assert Quantity.parse(str(amount)) == amount


@given(amounts, amounts)
def test_order_and_arithmetic_are_those_of_the_values(one: Quantity, two: Quantity) -> None:
    assert (one < two, one == two) == (one.nanos < two.nanos, one.nanos == two.nanos)
    assert one != two or hash(one) == hash(two)
    assert (one + two).nanos == one.nanos + two.nanos
    assert (one - two) + two == one


def test_the_suffix_does_not_matter_to_equality() -> None:
    assert Quantity.parse("1Gi") == Quantity.parse("1073741824")
    assert Quantity.whole(2) == Quantity.parse("2")
    assert Quantity.whole(1) != "1"


@given(st.integers(-(10**20), 10**20), st.sampled_from(["", "n", "u", "m", "k", "M", "E", "Ki", "Mi", "Ei"]))
def test_integers_are_read_as_fractions_are(number: int, suffix: str) -> None:
    whole, fraction = Quantity.parse(f"{number}{suffix}"), Quantity.parse(f"{number}.0{suffix}")
    assert (whole.nanos, whole.format) == (fraction.nanos, fraction.format)
