"""What is said of names in words that cannot be read: each word, and each that says nothing where it is."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.adoption import template_spec
from driver.adoption.spelling import (
    COUNT,
    FIXED_WORDS,
    GPU_TYPES,
    KINDS,
    NPUS,
    NUMBERED_WORDS,
    OTHER_WORDS,
    PROFILE_WORDS,
    advice,
    misspelt,
    nearest_word,
)
from driver.errors import InvalidInput
from driver.names import Names


def told(name: str) -> str:
    """The fault of a name; "" if there is a template for it."""
    try:
        template_spec(name, Names())
    except InvalidInput as error:
        return "; ".join(fault.message for fault in error.faults)
    return ""


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        ("shar", "share"),
        ("mgi", "mig"),
        ("vpnu", "vnpu"),
        ("gpus", "gpu"),
        ("spred", "spread"),
        ("timeslice", "timeslicing"),
        ("binpacking-of-all-cards", "binpack"),
        ("tpu", ""),
        ("two", ""),
        ("mlu", ""),
        ("cpu", ""),
    ],
)
def test_the_nearest_word_is_the_one_that_was_meant(word: str, nearest: str) -> None:
    """Also in a long text, of which only the beginning is compared; there is none for a word of another meaning."""
    assert nearest_word(word) == nearest


@pytest.mark.parametrize("word", OTHER_WORDS)
def test_a_word_is_nearest_to_itself(word: str) -> None:
    """So no word hides another one."""
    assert nearest_word(word) == word


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("", "a word before and behind each hyphen"),
        ("0", "1 to 32"),
        ("33", "1 to 32"),
        ("101c", "1c to 100c"),
        ("0.5gi", "80gi"),
        ("80gig", "80gi"),
        ("90tb", "80gi"),
        ("1g.10gb", "lode.mig-1g-10gb"),
        ("vir02_1c", "lode.vnpu-vir02-1c"),
        ("h10", "the types of this name are h20, h100, h200, h800"),
        ("l40x", "the types of this name are l4, l20, l40, l40s"),
        ("910b5", "the types of this name are 910a, 910b, 910c, 910b1, 910b2, 910b3, 910b4"),
        ("mi300x", "no type of that name is known"),
        ("rtx4090", "no type of that name is known"),
        ("two", "docs/requests.md has all words"),
    ],
)
def test_words_with_numbers_are_advised_by_what_they_look_like(word: str, said: str) -> None:
    """Others by the nearest word."""
    assert said in advice(word)


@given(st.from_regex("[a-z]{0,6}[0-9]{0,4}[a-z]{0,2}", fullmatch=True))
def test_no_advice_names_other_hardware(word: str) -> None:
    """Of a type, those that begin with the same letters are named, all of them."""
    named = [it for it in re.findall("[a-z0-9]+", advice(word).partition("types of this name are")[2]) if it]
    assert set(named) <= {*GPU_TYPES, *NPUS}
    assert all(it[: len(re.match("[a-z]*", word)[0])] == re.match("[a-z]*", word)[0] for it in named)  # type: ignore[index]
    assert nearest_word(word) in ("", *OTHER_WORDS)


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("lode.1-310p-vir02", "write lode.vnpu-1-310p-vir02, or lode.1-310p without it"),
        ("lode.npu-310p-vir02", "write lode.vnpu-310p-vir02, or lode.npu-310p without it"),
        ("lode.share-310p-vir02-1c", "write lode.vnpu-310p-vir02-1c, or lode.share-310p without it"),
        ("lode.a100-1g-10gb", "write lode.mig-a100-1g-10gb, or lode.a100 without it"),
        ("lode.1-a100-1g-10gb-me-spread", "write lode.mig-1-a100-spread-1g-10gb-me, or lode.1-a100-spread without it"),
        ("lode.gpu-1g-10gb", "write lode.mig-1g-10gb, or lode.gpu without it"),
        ("lode.gpu-vir02", "write lode.vnpu-vir02, or lode.gpu without it"),
        ("lode.h100-vir02", "write lode.vnpu-vir02, or lode.h100 without it"),
        ("lode.vir04", "write lode.vnpu-vir04"),
        ("lode.mig-1g.10gb", "a profile is written with hyphens: write lode.mig-1g-10gb"),
        ("lode.mig-2-1g.10gb.me", "a profile is written with hyphens: write lode.mig-2-1g-10gb-me"),
        ("lode.a100-1g.10gb", "write lode.mig-a100-1g-10gb, or lode.a100 without it"),
        ("lode.mig-a100", "say which one, as in lode.mig-a100-1g-10gb"),
        ("lode.vnpu-2-310p", "say which one, as in lode.vnpu-2-310p-vir02-1c"),
        ("lode.mig-310p-1g-10gb", "write lode.mig-1g-10gb"),
        ("lode.vnpu-h100-vir02", "write lode.vnpu-vir02"),
        ("lode.mig-1g-10gb-10gb", "10gb is there twice"),
        ("lode.h100-me", "me is no whole profile"),
        ("lode.h100-8g", "8g is no whole profile"),
        ("lode.a100-30c", "write lode.share-a100-30c"),
        ("lode.mig-1g-10gb-30c", "write lode.mig-1g-10gb"),
        ("lode.gpu-h100-mps", "write lode.share-h100-mps"),
        ("lode.npu-h100", "write lode.h100"),
    ],
)
def test_words_that_say_nothing_where_they_are_are_refused_with_the_right_name(name: str, right: str) -> None:
    """Which can be read."""
    assert right in told(name)
    for better in re.findall(r"lode\.[a-z0-9-]+", right):
        assert told(better) == ""


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("lode.mig-1g-10gb", "1g.10gb"),
        ("lode.mig-a100-1g-10gb", "1g.10gb"),
        ("lode.1g-10gb-me-mig-2", "1g.10gb+me"),
        ("lode.vnpu-310p-vir02-1c", "vir02_1c"),
        ("lode.vir10-3c-16g-nm-910b-vnpu", "vir10_3c_16g_nm"),
    ],
)
def test_a_profile_can_be_said_with_a_type_in_any_order(name: str, profile: str) -> None:
    [request] = template_spec(name, Names())["spec"]["devices"]["requests"]
    assert f'.profile == "{profile}"' in request["exactly"]["selectors"][-1]["cel"]["expression"]


_PROFILES = ("1g-10gb", "3g-40gb-me", "vir02", "vir04-3c-ndvpp", "1g-24gb-no-me", "me", "all", "8g")


@given(
    st.lists(
        st.sampled_from([*KINDS, "h100", "310p", "910b3", "2", "binpack", "numa", "80gi", "30c", "mps", *_PROFILES]),
        min_size=1,
        max_size=5,
        unique=True,
    )
)
def test_every_word_of_a_name_says_something_or_the_name_is_refused(words: list[str]) -> None:
    """A word that can be left out without a difference was not read."""
    name = "lode." + "-".join(words)
    if told(name):
        return
    spec = template_spec(name, Names())
    for word in words:
        without = "lode." + "-".join(it for it in words if it != word)
        implied = word in ("gpu", "npu") and bool({*words} & {"h100", "310p", "910b3"})
        assert implied or told(without) or template_spec(without, Names()) != spec


@given(
    st.sets(st.sampled_from([*KINDS[:3], "h100", "310p", "910b3", "binpack"]), max_size=2),
    st.sampled_from(_PROFILES[:5]),
)
def test_every_name_that_is_advised_for_a_profile_can_be_read(words: set[str], profile: str) -> None:
    (text,) = misspelt(f"lode.{'-'.join([*sorted(words), profile])}")
    first, *_ = re.findall(r"lode\.[a-z0-9-]+", text)
    assert told(first) == "" or {"310p", "910b3"} <= words


def test_examples_of_words_are_words() -> None:
    assert all(re.fullmatch(pattern, example) for example, pattern in NUMBERED_WORDS.items())
    assert all(re.fullmatch(COUNT, str(number)) for number in range(1, 33))
    assert not any(re.fullmatch(PROFILE_WORDS, word) for word in FIXED_WORDS)
