"""The grammar and the order of semver.org 2.0.0."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.semver import Semver, is_semver, numbers_fit

ORDERED = """
0.0.0 0.0.4 1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1 1.0.0
1.2.3----RC-SNAPSHOT.12.9.1--.12 1.2.3 10.2.3-DEV-SNAPSHOT 10.20.30
""".split()
WRONG = (
    *("", " 1.2.3", "1.2.3\n"),
    *"1 1.2 1.2.3.4 v1.2.3 01.2.3 1.02.3 1.2.03 -1.2.3 ١.2.3 580.65.06".split(),
    *"1.2.3- 1.2.3-01 1.2.3-a..b 1.2.3-a_b 1.2.3+ 1.2.3+a..b 1.2.3+a+b".split(),
)


def test_versions_are_ordered() -> None:
    versions = [Semver.parse(text) for text in ORDERED]
    assert all(one < other for one, other in itertools.pairwise(versions))
    assert all(is_semver(text) for text in ORDERED)


@pytest.mark.parametrize("text", WRONG)
def test_what_is_not_a_version_is_refused(text: str) -> None:
    assert not is_semver(text)
    with pytest.raises(ValueError, match="not a semantic version"):
        Semver.parse(text)


def test_build_metadata_does_not_affect_comparisons() -> None:
    one, other = Semver.parse("1.2.3+build.5"), Semver.parse("1.2.3+0.build.1-rc.10000aaa-kk-0.1")
    assert one == other == Semver.parse("1.2.3")
    assert len({one, other}) == 1


def test_the_api_accepts_numbers_beyond_64_bits_that_cel_refuses() -> None:
    largest, beyond = f"1.2.{2**64 - 1}", f"1.2.{2**64}"
    assert Semver.parse(largest).patch == 2**64 - 1
    assert is_semver(beyond)
    with pytest.raises(ValueError, match="not a semantic version"):
        Semver.parse(beyond)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("1.2.999999999999999999", True),
        ("1.2.1000000000000000000", False),
        ("1000000000000000000.2.3", False),
        ("1.2.3-a.1000000000000000000", False),
        ("1.2.3-1000000000000000000-a", True),
        ("1.2.3+1000000000000000000", True),
    ],
)
def test_a_number_has_at_most_18_digits_since_kubernetes_138(text: str, fits: bool) -> None:
    assert is_semver(text)
    assert numbers_fit(text) is fits


@given(st.text("01a-+.", max_size=14).map("1.2.3".__add__) | st.text("01a-+.", max_size=14))
def test_both_agree_on_the_grammar(text: str) -> None:
    try:
        Semver.parse(text)
    except ValueError:
        assert not is_semver(text)
    else:
        assert is_semver(text)
